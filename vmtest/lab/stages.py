"""Measures the time from panic to reboot by stages, with bigiron and with makedumpfile in the same guest."""

import re
import shutil
import statistics
from collections import defaultdict
from pathlib import Path

from . import initramfs
from .crash import BUSY_CPUS, Crashed, Plan, busy_plan
from .errors import LabError, Unavailable

CODEC = ("lzo", "-l")  # the fastest codec of Debian's makedumpfile
# Each stage lasts from one mark to the next.
STAGES = (
    ("panic to capture kernel", "panic", "capture-kernel"),
    ("capture kernel to its first process", "capture-kernel", "capture-init"),
    ("modules, file system", "capture-init", "ready"),
)


def with_libraries(name: str) -> dict[str, Path]:
    """Returns a program of this machine and the files that it needs, by path in the guest."""
    found = shutil.which(name)
    if not found:
        raise Unavailable(f"{name} is not installed. Install with: apt-get install {name}")
    files = {name: Path(found)}
    # glibc loads this library when the first thread ends; programs are not linked with it.
    beside = [str(path) for path in Path("/lib/x86_64-linux-gnu").glob("libgcc_s.so.1")]
    for path in [*initramfs.libraries(Path(found)), *beside]:
        files[path.removeprefix("/")] = Path(path).resolve()
    return files


def plan(rounds: int, ram_mib: int) -> Plan:
    """Returns the plan of a guest that dumps by both programs."""
    return busy_plan(
        "stages",
        ram_mib,
        files=with_libraries("makedumpfile"),
        environment={
            "rounds": str(rounds),
            "codec": CODEC[0],
            "flag": CODEC[1],
            "makedumpfile_threads": " ".join(map(str, (0, BUSY_CPUS))),
        },
    )


def table(crashed: Crashed) -> str:
    """Returns the medians as text."""
    seconds = defaultdict(list)
    failed = set()
    for record in crashed.records:
        if "run" not in record:
            continue
        name = re.sub(r" +", " ", record["run"].rpartition(" #")[0])
        if record["status"] != 0:
            # makedumpfile's threads sometimes abort, with and without some libraries.
            if name.startswith("bigiron"):
                raise LabError(f"{record['run']} ended with {record['status']}\n{crashed.tail()}")
            failed.add(f"{name}: ended with {record['status']} after {record['end'] - record['begin']:.1f} s")
            continue
        seconds[name].append(record["end"] - record["begin"])
    marks = crashed.marks
    lines = [f"{'stage':44} {'seconds':>8}"]
    for name, begin, end in STAGES:
        lines.append(f"{name:44} {marks[end] - marks[begin]:8.2f}")
    for name, times in seconds.items():
        lines.append(f"{'dump: ' + name:44} {statistics.median(times):8.2f}")
    end = crashed.ended - marks["reboot"]
    lines.append(f"{'reboot':44} {end:8.2f}")
    fixed = sum(marks[end] - marks[begin] for _, begin, end in STAGES) + end
    lines += ["", *sorted(failed)]
    for level in (31, 1):
        ours = statistics.median(seconds[f"bigiron -d {level}"])
        theirs = min(
            statistics.median(times)
            for name, times in seconds.items()
            if name.startswith("makedumpfile") and name.endswith(f"-d {level}")
        )
        lines.append(
            f"-d {level}: dump {theirs / ours:.2f} times as fast as makedumpfile's best; panic to reboot "
            f"{fixed + ours:.1f} s instead of {fixed + theirs:.1f} s"
        )
    return "\n".join(lines)
