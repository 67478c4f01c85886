#!/usr/bin/env python3
"""Judges whether drgn, with debug symbols, reads the same locks and owners of waiting tasks as `bigiron info --waits`.

drgn takes a lock from the variables of the function that blocks; bigiron takes it from the list that the waiter on the
stack is in. Tasks whose variables the compiler removed are counted, and not compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drgn_dumps
from verdict import Verdict

# Beginnings of the names of the functions that block, the variable that has the lock, and what bigiron calls it.
FUNCTIONS = (
    ("__mutex_lock", "lock", "mutex"),
    ("rwsem_down_", "sem", "rwsem"),
    ("__rt_mutex_", "lock", "rt-mutex"),
    ("rt_mutex_", "lock", "rt-mutex"),
    ("__down", "sem", "semaphore"),
    ("___down", "sem", "semaphore"),
    ("wait_for_completion", "x", "completion"),
    ("__wait_for_common", "x", "completion"),
)

# An owner is kept as a signed number, with three flags.
ADDRESS = (1 << 64) - 8


@dataclass(frozen=True)
class Seen:
    """What a task waits for, and the task_struct of the owner, 0 if the lock names none."""

    kind: str
    address: int
    owner: int


def _owner(kind: str, lock: Any) -> int:
    """Returns the owner that the lock names for certain."""
    if kind == "mutex":
        return int(lock.owner.counter) & ADDRESS
    if kind == "rt-mutex":
        return int(lock.owner) & ~1
    if kind == "rwsem" and int(lock.count.counter) & 1:
        return int(lock.owner.counter) & ADDRESS
    return 0


def _seen(program: Any, task: Any) -> Seen | None:
    import drgn

    if int(task.pi_blocked_on):
        lock = task.pi_blocked_on.lock
        return Seen("rt-mutex", int(lock), _owner("rt-mutex", lock))
    for frame in program.stack_trace(task):
        for beginning, variable, kind in FUNCTIONS:
            if not (frame.name or "").startswith(beginning):
                continue
            try:
                lock = frame[variable]
                if lock.absent_:
                    continue
                return Seen(kind, int(lock), _owner(kind, lock))
            except (KeyError, drgn.ObjectAbsentError, AttributeError):
                continue
    return None


def read(vmlinux: str | Path, dump: str | Path) -> tuple[dict[int, Seen], int]:
    """Returns what each task in state D waits for, and the number of tasks of which drgn does not know it."""
    import drgn
    from drgn.helpers.linux import for_each_task, task_state_to_char

    program = drgn.Program()
    program.set_core_dump(str(dump))
    program.load_debug_info([str(vmlinux)])
    found, unknown = {}, 0
    for task in for_each_task(program):
        if task_state_to_char(task) != "D":
            continue
        seen = _seen(program, task)
        if seen:
            found[task.pid.value_()] = seen
        else:
            unknown += 1
    return found, unknown


def judge(vmlinux: Path, dump: Path, bigiron: Path) -> Verdict:
    """Compares the waits of one dump."""
    verdict = Verdict(f"waits of {dump}")
    done = subprocess.run([bigiron, "info", "--waits", "--json", dump], capture_output=True, check=True)
    waits = json.loads(done.stdout)["waits"]["waits"]
    ours = {wait["task"]["pid"]: wait for wait in waits}
    theirs, unknown = read(vmlinux, dump)
    verdict.count("not known to drgn", unknown)
    for pid, seen in sorted(theirs.items()):
        on = ours.get(pid, {}).get("on")
        if not verdict.require(on is not None, f"PID {pid}: drgn says {seen}, bigiron nothing"):
            continue
        if on["kind"] == "work" and seen.kind == "completion":
            verdict.require(int(on["address"], 16) == seen.address, f"PID {pid}: {on['address']} is not {seen}")
            continue
        same = (on["kind"], int(on["address"], 16)) == (seen.kind, seen.address)
        verdict.require(same, f"PID {pid}: bigiron says {on['kind']} {on['address']}, drgn {seen}")
        owners = {int(holder["address"], 16) for holder in on["holders"] if holder["holds"] == "owner"}
        expected = {seen.owner} if seen.owner else set()
        verdict.require(owners == expected, f"PID {pid}: owners {owners} are not {expected}")
    return verdict


if __name__ == "__main__":
    sys.exit(drgn_dumps.main(__doc__, judge))
