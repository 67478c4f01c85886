#!/usr/bin/env python3
"""Holds the dependencies in Cargo.lock against deny.toml, as cargo-deny would.

For machines without cargo-deny: reads the same file, and knows of it what the
project uses: allowed licences, banned crates, several versions, wildcards,
sources. What it does not know in deny.toml it refuses.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

KNOWN = {
    "graph": {"targets", "all-features"},
    "licenses": {"allow", "confidence-threshold", "exceptions", "unused-allowed-license"},
    "bans": {"multiple-versions", "wildcards", "allow-wildcard-paths", "deny"},
    "sources": {"unknown-registry", "unknown-git", "allow-registry", "allow-git"},
}


def satisfied(expression: str, allowed: set[str]) -> set[str] | None:
    """The allowed licences that satisfy an SPDX expression; None if none do."""
    tokens = re.findall(r"\(|\)|[\w.+-]+", expression.replace("/", " OR "))

    def alternatives() -> set[str] | None:
        found = everything()
        while tokens[:1] == ["OR"]:
            tokens.pop(0)
            other = everything()
            found = found if found is not None else other
        return found

    def everything() -> set[str] | None:
        found = one()
        while tokens[:1] == ["AND"]:
            tokens.pop(0)
            other = one()
            found = None if found is None or other is None else found | other
        return found

    def one() -> set[str] | None:
        token = tokens.pop(0)
        if token == "(":
            found = alternatives()
            tokens.pop(0)
            return found
        if tokens[:1] == ["WITH"]:
            token = f"{token} WITH {tokens[1]}"
            del tokens[:2]
        return {token} if token in allowed else None

    return alternatives()


def check_known(rules: dict) -> list[str]:
    """Rules of deny.toml that this program would pass over."""
    unknown = [name for name in rules if name not in KNOWN]
    for name, known in KNOWN.items():
        unknown += [f"{name}.{key}" for key in rules.get(name, {}) if key not in known]
    return [f"deny.toml: {name} is not known to scripts/deny.py" for name in unknown]


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    rules = tomllib.loads((root / "deny.toml").read_text())
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    for target in rules["graph"]["targets"]:
        command += ["--filter-platform", target]
    # With it cargo counts what only the models of ./test loom need.
    environment = os.environ | {"RUSTFLAGS": "--cfg loom"}
    said = subprocess.run(command, cwd=root, env=environment, check=True, stdout=subprocess.PIPE).stdout
    metadata = json.loads(said)
    used = {node["id"] for node in metadata["resolve"]["nodes"]}
    packages = [package for package in metadata["packages"] if package["id"] in used]

    errors, warnings = check_known(rules), []
    allowed, used_licences = set(rules["licenses"]["allow"]), set()
    exceptions = {one["crate"]: set(one["allow"]) for one in rules["licenses"].get("exceptions", [])}
    banned = {ban["crate"]: ban["reason"] for ban in rules["bans"]["deny"]}
    registries = {f"registry+{url}" for url in rules["sources"]["allow-registry"]}
    versions = defaultdict(list)
    for package in packages:
        name = f"{package['name']} {package['version']}"
        versions[package["name"]].append(package["version"])
        here = allowed | exceptions.get(package["name"], set())
        licences = satisfied(package["license"], here) if package["license"] else None
        if licences is None:
            errors.append(f"{name}: licence {package['license']} is not allowed")
        else:
            used_licences |= licences
        if package["name"] in banned:
            errors.append(f"{name}: banned, {banned[package['name']]}")
        if package["source"] is not None and package["source"] not in registries:
            errors.append(f"{name}: comes from {package['source']}")
        if package["source"] is None:
            errors += [
                f"{name}: depends on {needed['name']} in any version"
                for needed in package["dependencies"]
                if needed["req"] == "*" and not needed.get("path")
            ]
    warnings += [f"{name}: {len(all_)} versions: {', '.join(sorted(all_))}" for name, all_ in versions.items() if len(all_) > 1]
    warnings += [f"deny.toml allows {licence}, which nothing needs" for licence in sorted(allowed - used_licences)]
    for line in warnings:
        print(f"warning: {line}")
    for line in errors:
        print(f"error: {line}")
    print(f"{len(packages)} packages, {len(errors)} errors, {len(warnings)} warnings (without advisories)")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
