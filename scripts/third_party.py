#!/usr/bin/env python3
"""Prints the notices of all libraries that a crate is linked with: name, version, licence, licence texts.

    scripts/third_party.py [CRATE]      # bigiron, the programs

What is linked is what `cargo metadata` resolves for x86-64 Linux, without what only tests and builds use. Binary
packages ship what it prints.
"""

import json
import subprocess
import sys
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"
PROGRAM = "bigiron"
NAMES = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT")
RULE = "-" * 72
# Linked into the static program by its linker, so cargo does not know of it.
MUSL = Path("/usr/share/doc/musl/copyright")


def linked(metadata: dict, crate: str) -> list[dict]:
    """The packages that a crate depends on, over normal dependencies."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    (first,) = (p["id"] for p in metadata["packages"] if p["name"] == crate and p["source"] is None)
    seen, waiting = {first}, deque([first])
    while waiting:
        for dependency in nodes[waiting.popleft()]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if normal and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return sorted((packages[name] for name in seen), key=lambda package: (package["name"], package["version"]))


def texts(directory: Path) -> list[Path]:
    """Licence files of a package: at its top, and of the C sources that it carries."""
    places = [directory, *(path for path in directory.iterdir() if path.is_dir())]
    return sorted(
        path for place in places for path in place.iterdir() if path.is_file() and path.name.upper().startswith(NAMES)
    )


def main() -> int:
    crate = sys.argv[1] if len(sys.argv) > 1 else PROGRAM
    command = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={TARGET}"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    print("What is in this package is linked with these libraries.\n")
    shown: set[str] = set()
    for package in linked(metadata, crate):
        if package["source"] is None:
            continue
        print(f"{RULE}\n{package['name']} {package['version']}: {package['license']}")
        print(package.get("repository") or "")
        for path in texts(Path(package["manifest_path"]).parent):
            text = path.read_text(errors="replace").strip()
            # The texts of Apache-2.0 and the like come dozens of times.
            if text in shown:
                print(f"\n{path.name}: as above")
            else:
                shown.add(text)
                print(f"\n{text}")
        print()
    if crate == PROGRAM and MUSL.exists():
        print(f"{RULE}\nmusl, in the static program\n\n{MUSL.read_text(errors='replace').strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
