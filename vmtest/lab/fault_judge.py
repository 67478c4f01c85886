"""Judges what `bigiron diagnose` finds in the dump of a situation."""

import json
import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

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
    took: str  # by the program: time and peak memory


def _matches(case: Case, finding: dict[str, Any]) -> bool:
    text = json.dumps(finding)
    return finding["kind"] == case.kind and all(name in text for name in case.names)


@dataclass(frozen=True)
class _Diagnosed:
    """What was found, and what it took."""

    findings: list[dict[str, Any]]
    seconds: float
    peak_mib: int


def _diagnose(dump: Path, bigiron: Path) -> _Diagnosed:
    begin = time.monotonic()
    with subprocess.Popen([bigiron, "diagnose", "--json", dump], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise LabError(f"diagnose: exit status {process.returncode}")
    return _Diagnosed(json.loads(printed)["findings"], time.monotonic() - begin, usage.ru_maxrss >> 10)


def _check_instructions(findings: list[dict[str, Any]], work: Path) -> None:
    """Compares each instruction that failed with what objdump says of its bytes. objdump names the segment of a
    string instruction's operand."""
    for instruction in (finding["instruction"] for finding in findings if "instruction" in finding):
        file = work / "code"
        file.write_bytes(bytes.fromhex(instruction["bytes"]))
        printed = tools.run(["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn", file])
        (expected,) = re.findall(r"^\s+0:\t([^#\n]*)", printed, re.MULTILINE)
        found, expected = (" ".join(text.split()).replace("%es:", "") for text in (instruction["text"], expected))
        if found != expected:
            raise LabError(f"the instruction {instruction['bytes']} is {found!r}, for objdump {expected!r}")


def _check_waits(case: Case, vmcore: Path, bigiron: Path) -> None:
    """Requires a wait, or a call of a CPU, that has the texts of the case."""
    waits = json.loads(tools.run([bigiron, "info", "--waits", "--json", vmcore]))["waits"]
    shown = [json.dumps(wait) for wait in [*waits["waits"], *waits["calls"]]]
    if not any(all(text in one for text in case.waits) for one in shown):
        raise LabError(f"no wait has {', '.join(case.waits)}")


def _check_picture(finding: dict[str, Any], dump: Path, bigiron: Path) -> None:
    """Requires the tasks of the first finding in the report's picture of who waits for whom, which must be XML."""
    page = tools.run([bigiron, "report", dump, "-o", "-"])
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    picture = data["findings"]["waits"].get("svg")
    if not picture:
        raise LabError("the report has no picture of waits")
    picture = ElementTree.fromstring(picture)
    shown = " ".join(picture.itertext())
    for task in finding["tasks"][:2]:
        if f"{task['name']} (PID {task['pid']})" not in shown:
            raise LabError(f"{task['name']} is not in the picture of waits")


def _user(pid: int, dump: Path, bigiron: Path) -> dict[str, Any]:
    told = json.loads(tools.run([bigiron, "info", "--user", str(pid), "--json", dump]))["user"]
    if "mappings" not in told:
        raise LabError(f"info --user {pid}: {told}")
    return told


def _check_process(findings: list[dict[str, Any]], vmcore: Path, filtered: Path, bigiron: Path) -> None:
    """Compares a process with what it printed itself, as the kernel and glibc told it: what it had mapped, and the
    functions that it was in."""
    console = (vmcore.parent / "console.log").read_text()
    # Of the kernel's own page for system calls, there is no mapping.
    lines = [line.split() for line in re.findall(r"^mapped: (.*)$", console, re.MULTILINE) if "[vsyscall]" not in line]
    if not lines:
        return
    (pid,) = {task["pid"] for task in findings[0]["tasks"] if task["name"] == "futex-owner"}
    expected = [(words[0], words[1], int(words[2], 16), " ".join(words[5:])) for words in lines]
    whole = _user(pid, vmcore, bigiron)
    for told in (whole, _user(pid, filtered, bigiron)):
        found = [
            (f"{int(one['start'], 16):08x}-{int(one['end'], 16):08x}", one["access"], one["offset"], one.get("name", ""))
            for one in told["mappings"]
        ]
        if found != expected:
            raise LabError(f"info --user: mappings {set(found) ^ set(expected)} differ from those in /proc/PID/maps")
    calls = [int(address, 16) for address in re.findall(r"^called from: (\S+)", console, re.MULTILINE)]
    frames = [(int(frame["address"], 16), frame["sure"]) for frame in whole["threads"][0]["frames"]]
    if not calls or frames[-len(calls) :] != [(address, True) for address in calls]:
        raise LabError(f"info --user: frames {frames} do not end with those of glibc, {calls}")


def judge(case: Case, vmcore: Path, bigiron: Path) -> Verdict:
    """Compares what `bigiron diagnose` finds with the expectation, and with what it finds in a dump of level 31."""
    diagnosed = _diagnose(vmcore, bigiron)
    findings = diagnosed.findings
    with tempfile.TemporaryDirectory(dir=cache.root(), prefix=".faults.") as directory:
        filtered = Path(directory) / "level-31"
        tools.run([bigiron, "dump", "--quiet", "-d", "31", "-c", "lzo", vmcore, filtered])
        if _diagnose(filtered, bigiron).findings != findings:
            raise LabError("diagnose finds something else in the dump of level 31")
        _check_instructions(findings, Path(directory))
        if case.kind in ("deadlock", "lock-held"):
            _check_picture(findings[0], filtered, bigiron)
        _check_process(findings, vmcore, Path(directory) / "level-31", bigiron)
        if case.waits:
            _check_waits(case, filtered, bigiron)
    weighty = [finding for finding in findings if finding["weight"] >= WEIGHTY]
    said = "; ".join(f"{finding['kind']} ({finding['weight']})" for finding in findings[:4]) or "nothing found"
    took = f"{diagnosed.seconds:.2f} s, {diagnosed.peak_mib} MiB"
    if not case.kind:
        if weighty:
            said = "; ".join(f"{finding['kind']} ({finding['weight']}): {finding['title']}" for finding in weighty)
        return Verdict("missed" if weighty else "first", said, took)
    places = [number for number, finding in enumerate(weighty) if _matches(case, finding)]
    if not places or places[0] > 2:
        return Verdict("missed", said, took)
    return Verdict("among three" if places[0] else "first", said, took)
