"""Judges what `bigiron diagnose` finds in the dump of a situation."""

import json
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import cache, tools
from .errors import LabError
from .fault_cases import Case

# As crates/inspect/src/diagnose/finding.rs: below it, a finding is a remark.
WEIGHTY = 50


@dataclass(frozen=True)
class Verdict:
    """Where the cause is among the findings."""

    place: str  # "first", "among three", or "missed"
    text: str
    seconds: float


def _matches(case: Case, finding: dict[str, Any]) -> bool:
    text = json.dumps(finding)
    return finding["kind"] == case.kind and all(name in text for name in case.names)


def _findings(dump: Path, bigiron: Path) -> list[dict[str, Any]]:
    done = subprocess.run([bigiron, "diagnose", "--json", dump], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise LabError(f"diagnose: exit status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)["findings"]


def judge(case: Case, vmcore: Path, bigiron: Path) -> Verdict:
    """Compares what `bigiron diagnose` finds with the expectation, and with what it finds in a dump of level 31."""
    begin = time.monotonic()
    findings = _findings(vmcore, bigiron)
    seconds = time.monotonic() - begin
    with tempfile.TemporaryDirectory(dir=cache.root(), prefix=".faults.") as directory:
        filtered = Path(directory) / "level-31"
        tools.run([bigiron, "dump", "--quiet", "-d", "31", "-c", "lzo", vmcore, filtered])
        if _findings(filtered, bigiron) != findings:
            raise LabError("diagnose finds something else in the dump of level 31")
    weighty = [finding for finding in findings if finding["weight"] >= WEIGHTY]
    said = "; ".join(f"{finding['kind']} ({finding['weight']})" for finding in findings[:4]) or "nothing found"
    if not case.kind:
        if weighty:
            said = "; ".join(f"{finding['kind']} ({finding['weight']}): {finding['title']}" for finding in weighty)
        return Verdict("missed" if weighty else "first", said, seconds)
    places = [number for number, finding in enumerate(weighty) if _matches(case, finding)]
    if not places or places[0] > 2:
        return Verdict("missed", said, seconds)
    return Verdict("among three" if places[0] else "first", said, seconds)
