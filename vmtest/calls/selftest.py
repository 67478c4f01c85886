"""Tests that the suites detect faults: a library with any of the faults must cause a difference, a library without
faults none."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from lab import cache
from lab.errors import LabError

from . import store

# Programs that detect at least one fault each.
PROGRAMS = ("lock/all", "lock/errors", "lock/limits", "lock/parts", "map/errors", "map/fixed", "map/populate",
            "process/exits", "process/traces", "shm/destroy", "shm/detach_errors", "shm/locking", "shm/stat")

_SOURCE = Path(__file__).with_name("faulty.c")


def _library(fault: int) -> Path:
    """Builds the library with one fault; 0 for none."""
    made = store.root() / f"faulty-{fault}.so"
    with cache.lock("faulty"):
        made.parent.mkdir(parents=True, exist_ok=True)
        command = ["gcc", "-shared", "-fPIC", "-O1", "-w", "-s", "-D_GNU_SOURCE", f"-DFAULT={fault}"]
        subprocess.run([*command, str(_SOURCE), "-o", str(made)], check=True)
    return made


def faults() -> int:
    """Returns the number of faults."""
    return max(int(number) for number in re.findall(r"FAULT == (\d+)", _SOURCE.read_text()))


def run(differences: Callable[[Path], list[str]]) -> None:
    """Tests all faults. `differences` returns the names of the programs that differ under a library. Stops at the first
    fault that no program detects."""
    for fault in range(faults() + 1):
        noticed = differences(_library(fault))
        print(f"fault {fault:2}: {', '.join(noticed) if noticed else 'no difference'}", flush=True)
        if bool(noticed) != bool(fault):
            raise LabError("a difference without a fault" if noticed else "the fault was not detected")
