#!/usr/bin/env python3
"""Judges whether bigiron finds the same tasks, run queues and stacks as drgn with debug symbols.

bigiron uses kallsyms, BTF and the ORC tables from the dump; drgn uses the symbol table and DWARF of vmlinux.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import by_symbols
from tools import Bigiron
from verdict import Verdict


def rss(program: Any, task: Any) -> int | None:
    """Returns the resident pages of a task. For a kernel thread, drgn has 0 and bigiron none."""
    from drgn.helpers.linux.mm import task_rss

    PF_KTHREAD = 0x200000
    if task.flags & PF_KTHREAD or not task.mm:
        return None
    return max(0, task_rss(program, task).total)


def stack(program: Any, task: Any) -> list[int] | None:
    """Returns the return addresses of a task's kernel functions; None if drgn cannot unwind."""
    try:
        trace = program.stack_trace(task)
    except ValueError:
        return None
    real = [frame.pc for frame in trace if not frame.is_inline]
    # drgn continues into the user program that called the kernel.
    return list(itertools.takewhile(lambda pc: pc >> 63, real))


def by_drgn(program: Any) -> dict[int, dict[str, Any]]:
    """Returns each task by its address."""
    from drgn.helpers.linux import for_each_task, task_cpu, task_on_cpu, task_state_to_char

    return {
        task.value_(): {
            "pid": task.pid.value_(),
            "tgid": task.tgid.value_(),
            "parent": task.real_parent.tgid.value_(),
            "name": task.comm.string_().decode("utf-8", "replace"),
            "state": task_state_to_char(task),
            "cpu": task_cpu(task),
            "on_cpu": task_on_cpu(task),
            "rss_pages": rss(program, task),
            "stack": stack(program, task),
        }
        for task in for_each_task(program, idle=True)
    }


def by_bigiron(output: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Returns the same from `bigiron info --tasks --stacks`."""
    traces = {task["address"]: task for task in output["stacks"]["tasks"]}
    found: dict[int, dict[str, Any]] = {}
    for task in output["tasks"]["tasks"]:
        names = ("pid", "tgid", "parent", "name", "state", "cpu", "on_cpu")
        facts = {name: task[name] for name in names}
        facts["rss_pages"] = task.get("rss_pages")
        facts["frames"] = traces[task["address"]]["frames"]
        facts["stack"] = [int(frame["address"], 16) for frame in facts["frames"]]
        found[int(task["address"], 16)] = facts
    return found


def judge_tasks(verdict: Verdict, ours: dict[int, dict[str, Any]], theirs: dict[int, dict[str, Any]]) -> None:
    """Compares every task, fact by fact, and every stack, function by function."""
    verdict.require(bool(theirs), "drgn finds no task")
    for address in ours.keys() ^ theirs.keys():
        side = "bigiron" if address in ours else "drgn"
        verdict.differ(f"only {side} has the task at {address:#x}: {(ours | theirs)[address]['name']}")
    for address in ours.keys() & theirs.keys():
        for fact, expected in theirs[address].items():
            found = ours[address][fact]
            if fact == "stack":
                if expected is None:
                    continue
                verdict.count("frames", len(expected))
            elif fact == "rss_pages" and expected is not None:
                verdict.count("RSS")
            named = f"{ours[address]['name']} (PID {ours[address]['pid']})"
            verdict.require(found == expected, f"{named}, {fact}: ours {found}, drgn {expected}")
        verdict.count("tasks")


def judge_run_queues(verdict: Verdict, program: Any, output: list[dict[str, Any]]) -> None:
    """Compares the running and the waiting tasks of each CPU."""
    from drgn.helpers.linux import for_each_online_cpu
    from drgn.helpers.linux.sched import cpu_curr, cpu_rq, rq_for_each_fair_task, rq_for_each_rt_task

    verdict.require([queue["cpu"] for queue in output] == list(for_each_online_cpu(program)), "the CPUs differ from drgn's")
    for queue in output:
        cpu = queue["cpu"]
        rq, current = cpu_rq(program, cpu), cpu_curr(program, cpu)
        facts = {
            "address": (int(queue["address"], 16), rq.value_()),
            "current": (queue["current"]["pid"], current.pid.value_()),
            "idle": (queue["idle"], current.value_() == rq.idle.value_()),
            "running": (queue["running"], rq.nr_running.value_()),
            "load": (queue["fair_load"], rq.cfs.load.weight.value_()),
            "clock": (queue["clock"], rq.clock.value_()),
            "switches": (queue["switches"], rq.nr_switches.value_()),
        }
        for name, tasks in (("fair", rq_for_each_fair_task(rq)), ("real_time", rq_for_each_rt_task(rq))):
            ours = {(task["pid"], task["priority"]) for task in queue[name]}
            theirs = {(task.pid.value_(), task.prio.value_()) for task in tasks}
            # drgn lists the running fair task among the waiting ones.
            mine = {(current.pid.value_(), current.prio.value_())} if name == "fair" else set()
            facts[name] = (ours - mine, theirs - mine)
            verdict.count("queued tasks", len(theirs))
        for name, (ours, theirs) in facts.items():
            verdict.require(ours == theirs, f"CPU {cpu}, {name}: ours {ours}, drgn {theirs}")


def judge_names(verdict: Verdict, program: Any, ours: dict[int, dict[str, Any]]) -> None:
    """Judges the function of every frame: a function starts at that address, and drgn finds no other start in
    between."""
    for frame in (frame for task in ours.values() for frame in task["frames"]):
        at = int(frame["address"], 16)
        inside = at - (not frame["interrupted"])
        start = at - frame.get("offset", 0)
        try:
            named = start in {symbol.address for symbol in program.symbols(frame.get("symbol", ""))}
            nearest = program.symbol(inside).address <= start
        except LookupError:
            named = nearest = False
        # An address may have several names; each program chooses one of them.
        verdict.require(named and nearest, f"{at:#x} is not {frame.get('symbol')}+{frame.get('offset', 0):#x}")
        verdict.count("names")


def judge(bigiron: Bigiron, vmlinux: str | Path, dump: str | Path, openable: str | Path) -> Verdict:
    """Compares bigiron's output for `dump` with drgn's for `openable`, the same memory."""
    import drgn

    verdict = Verdict("tasks, run queues and stacks")
    program = drgn.Program()
    program.set_core_dump(str(openable))
    program.load_debug_info([str(vmlinux)])
    output = bigiron.info(Path(dump), "--tasks", "--stacks", "--run-queues")
    ours = by_bigiron(output)
    judge_tasks(verdict, ours, by_drgn(program))
    judge_names(verdict, program, ours)
    judge_run_queues(verdict, program, output["run_queues"])
    return verdict


if __name__ == "__main__":
    sys.exit(by_symbols.main(__doc__, judge))
