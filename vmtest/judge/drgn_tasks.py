#!/usr/bin/env python3
"""Judges whether drgn, with debug symbols, finds the same tasks in two dumps.

A dump can be well-formed and still lack the kernel's data; walking the tasks
reads the pid tables, the task structs and the objects to which they point.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import peers_venv
from verdict import Verdict

Task = tuple[int, str, str]


def tasks(vmlinux: str | Path, dump: str | Path) -> set[Task]:
    """Returns pid, name and state of every task of the dump."""
    import drgn
    from drgn.helpers.linux import for_each_task, task_state_to_char

    program = drgn.Program()
    program.set_core_dump(str(dump))
    program.load_debug_info([str(vmlinux)])
    return {
        (
            task.pid.value_(),
            task.comm.string_().decode("utf-8", "replace"),
            task_state_to_char(task),
        )
        for task in for_each_task(program)
    }


def judge(vmlinux: str | Path, a: str | Path, b: str | Path | None = None) -> Verdict:
    """Lists the tasks of one dump or two, and compares them."""
    names = " and ".join(Path(dump).name for dump in (a, b) if dump)
    verdict = Verdict(f"tasks of {names}")
    found: list[set[Task]] = []
    for dump in filter(None, (a, b)):
        try:
            found.append(tasks(vmlinux, dump))
        except Exception as error:  # usually a missing page
            verdict.differ(f"{Path(dump).name}: drgn cannot list the tasks: {error}")
            return verdict
        verdict.count("tasks", len(found[-1]))
        by_pid = {pid: name for pid, name, _ in found[-1]}
        verdict.require(1 in by_pid, f"{Path(dump).name}: no pid 1")
        verdict.require(
            by_pid.get(2) == "kthreadd",
            f"{Path(dump).name}: pid 2 is {by_pid.get(2)}, not kthreadd",
        )
    for pid, name, state in sorted(set.symmetric_difference(*found) if b else ()):
        side = "A" if (pid, name, state) in found[0] else "B"
        verdict.differ(f"only in {side}: pid {pid} {name} {state}")
    return verdict


def main() -> int:
    peers_venv.run_inside()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vmlinux", help="with debug symbols, of the dump's kernel")
    parser.add_argument("a")
    parser.add_argument("b", nargs="?")
    arguments = parser.parse_args()
    return judge(arguments.vmlinux, arguments.a, arguments.b).finish()


if __name__ == "__main__":
    sys.exit(main())
