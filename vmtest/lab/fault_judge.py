"""Judges what `bigiron diagnose` finds in the dump of a situation."""

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def judge(case: Case, vmcore: Path, bigiron: Path) -> Verdict:
    """Runs `bigiron diagnose` and compares its findings with the expectation."""
    begin = time.monotonic()
    done = subprocess.run([bigiron, "diagnose", "--json", vmcore], capture_output=True, text=True, timeout=120, check=False)
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        raise LabError(f"diagnose: exit status {done.returncode}: {done.stderr.strip()}")
    findings = json.loads(done.stdout)["findings"]
    weighty = [finding for finding in findings if finding["weight"] >= WEIGHTY]
    said = "; ".join(f"{finding['kind']} ({finding['weight']})" for finding in findings[:4]) or "nothing found"
    if not case.kind:
        return Verdict("missed" if weighty else "first", said, seconds)
    places = [number for number, finding in enumerate(weighty) if _matches(case, finding)]
    if not places or places[0] > 2:
        return Verdict("missed", said, seconds)
    return Verdict("among three" if places[0] else "first", said, seconds)
