"""Compares scheduling domains of pseries guests (ppc64el) with those that `bigiron cpu domains` builds for their
machines and reads in them, and takes CPUs offline and online in them by bigiron."""

import functools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab import backports, notes, program, qemu, tools
from lab.architectures import ARCHITECTURES, Architecture

from . import guest, sources, trees
from .guest import Topology
from .trees import Case

POWER = ARCHITECTURES["ppc64el"]
# The first QEMU that emulates several threads of a core, and its packages.
SINCE = (8, 1)
PACKAGES = ("qemu-system-ppc", "qemu-system-common", "qemu-system-data")

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
# States after which the domains are also read by BPF. Debian's 6.1 of ppc64el has no types.
READ = ("online 3,8-9", "smt 4", "smt on")
WITH_TYPES = ("6.12",)


@functools.cache
def emulator() -> Architecture:
    """Returns the architecture with a QEMU that emulates several threads per core: the installed one, or that of the
    backports."""
    tools.need(POWER.qemu)
    version = re.search(r"version (\d+)\.(\d+)", tools.run([POWER.qemu, "--version"]))
    if version and (int(version[1]), int(version[2])) >= SINCE:
        return POWER
    root = backports.tree(PACKAGES)
    newer = root / "usr" / "bin" / POWER.qemu
    backports.need_libraries(newer)
    return replace(POWER, qemu=str(newer), options=(*POWER.options, "-L", str(root / "usr" / "share" / "qemu")))


def boot(topology: Topology, series: str, script: str, programs: dict[str, Path]) -> str:
    """Runs a script in a guest; returns the console."""
    return guest.run(
        topology, series, programs, script, accel=qemu.ONE_THREAD, seconds=1500, architecture=emulator()
    )


def _stepped(series: str, bigiron: Path) -> list[dict[str, Any]]:
    """Takes CPUs offline and online by bigiron in the guest, and reads domains there."""
    read = READ if series in WITH_TYPES else ()
    lines = [trees.SCRIPT, sources.FUNCTIONS]
    for command, _ in STEPS:
        lines += [
            f"/bigiron cpu {command} >/tmp/printed 2>&1",
            'say "{\\"status\\": $?, \\"online\\": \\"$(cat /sys/devices/system/cpu/online)\\"}"',
            *([f'both "{command}"'] if command in read else []),
        ]
    console = boot(NODES.topology, series, "\n".join(lines), {"bigiron": bigiron})
    records = [record for record in notes.console_records(console) if "online" in record]
    found = []
    for (command, expected), record in zip(STEPS, records, strict=True):
        good = record == {"status": 0, "online": expected}
        found.append({"run": f"{series} bigiron cpu {command}", "status": 0 if good else 1, "detail": str(record)})
    return found + [sources.compared(console, series, command, f"by BPF after {command}") for command in read]


def run(bigiron: Path, series: str, full: bool) -> list[dict[str, Any]]:
    """Compares domains in all states, first without and then with a program in the guest."""
    console = boot(NODES.topology, series, trees.script_of(NODES).replace(trees.SCRIPT, trees.SCRIPT + SCRIPT), {})
    return trees.compared(NODES, series, bigiron, console) + _stepped(series, program.cross(POWER))
