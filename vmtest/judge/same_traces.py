#!/usr/bin/env python3
"""Judges whether bigiron finds the same stacks as the dumped kernel printed itself.

The guest prints a trace of each task into its log: at the panic, if it was booted with `panic_print=1`, or before, on
`t` in /proc/sysrq-trigger. It works on every architecture, and needs no debug symbols.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from tools import Bigiron
from verdict import CannotJudge, Verdict

# sched_show_task, kernel/sched/core.c.
TASK = re.compile(r"\btask:(?P<name>.*?)\s+state:(?P<state>\S)\s.*\bpid:\s*(?P<pid>\d+)")
# "%pS" or "%pB" at the end of a line, behind an address on some architectures, before a module's name.
FUNCTION = re.compile(r"(?P<guess>\? )?(?P<name>[\w.$]+)\+0x(?P<offset>[0-9a-f]+)/0x[0-9a-f]+(?: \[[^\]]+\])?(?P<rest>.*)$")
START = re.compile(r"Call Trace:", re.IGNORECASE)
END = re.compile(r"Showing busy workqueues|Sched Debug Version|</TASK>|sysrq: ")
# A task can run between the trace and the dump. More than one in ten is a fault of the unwinder.
LEAST_EQUAL = 0.9

Trace = list[tuple[str, int]]
"""Name and offset of each function, the innermost first."""


def printed(log: str) -> dict[int, tuple[str, Trace]]:
    """Returns state and trace of each task in a log, by PID; the last trace if there are several."""
    found: dict[int, tuple[str, Trace]] = {}
    trace: Trace | None = None
    inside = False
    for line in log.splitlines():
        if task := TASK.search(line):
            trace, inside = [], False
            found[int(task["pid"])] = (task["state"], trace)
        elif END.search(line):
            inside = False
        elif START.search(line):
            inside = trace is not None
        elif inside and trace is not None and (function := FUNCTION.search(line)):
            # Words on the stack that only look like return addresses.
            if not function["guess"] and "unreliable" not in function["rest"]:
                trace.append((function["name"], int(function["offset"], 16)))
    # The trace of PID 0 is that of one idle task of several.
    found.pop(0, None)
    return found


def unwound(tasks: list[dict[str, Any]]) -> dict[int, Trace]:
    """Returns the traces that bigiron finds, of tasks that sleep."""
    return {
        task["pid"]: [(frame.get("symbol", ""), frame.get("offset", 0)) for frame in task["frames"]]
        for task in tasks
        if task["pid"] and not task["on_cpu"]
    }


def compare(theirs: dict[int, tuple[str, Trace]], ours: dict[int, Trace]) -> Verdict:
    """Compares the tasks that slept both times."""
    verdict = Verdict("stacks and the kernel's own traces")
    slept = {pid: trace for pid, (state, trace) in theirs.items() if state != "R" and trace and pid in ours}
    if not slept:
        raise CannotJudge("the log has no trace of a task that sleeps (panic_print=1)")
    for pid, expected in sorted(slept.items()):
        found = ours[pid]
        if found == expected:
            verdict.count("tasks equal")
            verdict.count("frames", len(expected))
            continue
        verdict.count("tasks different")
        text = [" < ".join(f"{name}+{offset:#x}" for name, offset in trace) for trace in (found, expected)]
        verdict.note(f"PID {pid} ran meanwhile, or is wrong: ours {text[0]}, the kernel's {text[1]}")
    equal = verdict.counts["tasks equal"]
    verdict.require(equal >= LEAST_EQUAL * len(slept), f"only {equal} of {len(slept)} tasks have the trace that the kernel printed")
    return verdict


def judge(bigiron: Bigiron, dump: Path) -> Verdict:
    """Compares the stacks in a dump with the traces in its log."""
    theirs = printed(bigiron.log(dump).decode(errors="replace"))
    if not theirs:
        raise CannotJudge("the log has no trace of a task (panic_print=1)")
    return compare(theirs, unwound(bigiron.info(dump, "--stacks")["stacks"]["tasks"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bigiron", type=Path)
    parser.add_argument("dump", type=Path, help="of a guest of any architecture")
    arguments = parser.parse_args()
    try:
        return judge(Bigiron(arguments.bigiron), arguments.dump).finish()
    except CannotJudge as error:
        return error.finish()


if __name__ == "__main__":
    sys.exit(main())
