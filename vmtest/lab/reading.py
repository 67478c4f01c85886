"""Compares the speed of mmap and read on /proc/vmcore in a capture kernel, with one processor and with several."""

import re
from pathlib import Path

from .crash import Crashed, Plan
from .errors import LabError
from .qemu import accelerator

LEVELS = 4
# A row of the tables: the number of helpers, the times, their average, the speed and its ratio.
ROW = re.compile(r"^\| +(\d+) \|.*\| +([\d.]+) \| +([\d.]+) \|$")


def plan(cpus: int, ram_mib: int, runs: int, threads: str | None) -> Plan:
    """Returns the plan of a guest whose capture kernel has this number of processors."""
    return Plan(
        "bench",
        levels=LEVELS,
        ram_mib=ram_mib,
        crashkernel="256M",
        cached_mib=ram_mib // 4,
        cpus=cpus,
        capture_words=f"nr_cpus={cpus}",
        environment={"runs": str(runs), "threads": threads or ""},
        timeout=900,
    )


def tables(cpus: int, ram_mib: int, runs: int, threads: str | None, program: Path) -> str:
    """Returns the output of `bigiron bench vmcore` in the capture kernel; `threads` as its option."""
    with Crashed(plan(cpus, ram_mib, runs, threads), program) as crashed:
        if crashed.ran("bench").get("status") != 0:
            raise LabError(f"bigiron bench vmcore failed\n{crashed.tail()}")
        lines = [line.removeprefix("bench: ") for _, line in crashed.lines if line.startswith("bench: ")]
    if accelerator(LEVELS) == "tcg":
        lines.append("The guest's processors are emulated: compare ways to read with these figures, not machines.")
    return "\n".join(lines)


def rows(text: str) -> list[dict[str, object]]:
    """Returns the rows of the tables: access method, number of helpers, speed in MB/s."""
    found, io = [], ""
    for line in text.splitlines():
        if line in ("mmap", "read"):
            io = line
        elif match := ROW.match(line):
            found.append({"io": io, "threads": int(match[1]), "speed": float(match[2])})
    return found
