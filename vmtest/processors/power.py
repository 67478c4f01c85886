"""Compares scheduling domains of pseries guests (ppc64el) with those that `bigiron cpu domains --sysfs` builds for
their machines, and takes CPUs offline and online in them by bigiron."""

import os
import re
from pathlib import Path
from typing import Any

from lab import notes, qemu, tools
from lab.errors import Unavailable

from . import guest, trees
from .guest import Topology
from .trees import Case

# The first QEMU that emulates several threads of a core.
SINCE = (8, 1)
PROGRAM = "qemu-system-ppc64"

NODES = Case(
    Topology(
        "pseries with 64 CPUs", "64,sockets=4,cores=2,threads=8",
        nodes=("0-15", "16-31", "32-47", "48-63"),
        distances=((0, 1, 20), (2, 3, 20), (0, 2, 40), (0, 3, 40), (1, 2, 40), (1, 3, 40)),
        ram_mib=2048,
    ),
    (
        ("all online", ""),
        ("one thread offline", "off 3"),
        ("a core offline", "off 8 9 10 11 12 13 14 15"),
        ("two of its threads online", "on 3 8 9"),
        ("one thread per core", "keep 1"),
        ("four threads per core", "keep 4"),
        ("all online again", "keep 8"),
    ),
)  # fmt: skip

# Sets the number of threads of each core. Kernels before 6.6 have no policy on Power.
SCRIPT = """
keep() {
    if [ "$(cat /sys/devices/system/cpu/smt/control)" != notimplemented ]; then smt "$1"; return; fi
    cpu=0
    while [ "$cpu" -lt 64 ]; do
        if [ $((cpu % 8)) -lt "$1" ]; then on "$cpu"; else off "$cpu"; fi
        cpu=$((cpu + 1))
    done 2>/dev/null
}
"""

# The same states by bigiron: the CPUs that are online after each command.
STEPS = (
    ("offline 3,8-15", "0-2,4-7,16-63"),
    ("online 3,8-9", "0-9,16-63"),
    ("smt off", "0,8,16,24,32,40,48,56"),
    ("smt 2", "0-1,8-9,16-17,24-25,32-33,40-41,48-49,56-57"),
    ("smt 4", "0-3,8-11,16-19,24-27,32-35,40-43,48-51,56-59"),
    ("smt 1", "0,8,16,24,32,40,48,56"),
    ("smt on", "0-63"),
)


def _need_threads() -> None:
    """Checks that QEMU emulates several threads per core."""
    tools.need(PROGRAM)
    printed = tools.run([PROGRAM, "--version"]).splitlines()[0]
    version = re.search(r"version (\d+)\.(\d+)", printed)
    if not version or (int(version[1]), int(version[2])) < SINCE:
        raise Unavailable(f"{printed}: one thread per core only; needed: QEMU 8.1, as in Debian 12's backports")


def _boot(series: str, script: str, programs: dict[str, Path]) -> str:
    return guest.run(
        NODES.topology, series, programs, script, accel=qemu.ONE_THREAD, seconds=900, architecture="ppc64el"
    )


def _stepped(series: str, program: Path) -> list[dict[str, Any]]:
    """Takes CPUs offline and online by bigiron in the guest."""
    lines = []
    for command, _ in STEPS:
        lines += [
            f"/bigiron cpu {command} >/tmp/printed 2>&1",
            'say "{\\"status\\": $?, \\"online\\": \\"$(cat /sys/devices/system/cpu/online)\\"}"',
        ]
    console = _boot(series, "\n".join(lines), {"bigiron": program})
    records = [record for record in notes.console_records(console) if "online" in record]
    found = []
    for (command, expected), record in zip(STEPS, records, strict=True):
        good = record == {"status": 0, "online": expected}
        found.append({"run": f"{series} bigiron cpu {command}", "status": 0 if good else 1, "detail": str(record)})
    return found


def run(bigiron: Path, series: str, full: bool) -> list[dict[str, Any]]:
    """Compares domains in all states. With a program for the guest, also runs it there."""
    _need_threads()
    console = _boot(series, trees.script_of(NODES).replace(trees.SCRIPT, trees.SCRIPT + SCRIPT), {})
    records = trees.compared(NODES, series, bigiron, console)
    program = os.environ.get("BIGIRON_POWERPC64LE")
    return records + (_stepped(series, Path(program)) if program else [])
