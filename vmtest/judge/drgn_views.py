#!/usr/bin/env python3
"""Judges whether drgn, with debug symbols, reads the same as `bigiron info --workqueues --mounts --irq`.

drgn takes pools from their idr, busy workers from each pool's hash table, mounts from the list or tree of a namespace,
and interrupts by their numbers; bigiron takes pools from the parts of queues, busy workers from each pool's list, mounts
from the children of each, and interrupts from the tree of descriptors.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import drgn_dumps
from verdict import Verdict

READ_ONLY = 0x40


# A function of a module, whose debug symbols are not there.
OF_MODULE = "?"


def _function(program: Any, address: int) -> str:
    try:
        return program.symbol(address).name if address else ""
    except LookupError:
        return OF_MODULE


def _pools(program: Any) -> dict[int, dict[str, Any]]:
    """Returns the pools by number: workers, those that are busy, and items that wait."""
    from drgn import cast
    from drgn.helpers.linux import hlist_for_each_entry, idr_for_each, list_for_each_entry

    found = {}
    for number, entry in idr_for_each(program["worker_pool_idr"]):
        pool = cast("struct worker_pool *", entry)
        busy = {}
        for head in pool.busy_hash:
            for worker in hlist_for_each_entry("struct worker", head, "hentry"):
                name = worker.current_pwq.wq.name.string_().decode()
                busy[int(worker.task.pid)] = (_function(program, int(worker.current_func)), name)
        items = list_for_each_entry("struct work_struct", pool.worklist.address_of_(), "entry")
        functions = [_function(program, int(item.func)) for item in items]
        found[number] = {
            "workers": int(pool.nr_workers),
            "cpu": int(pool.cpu),
            "busy": busy,
            "pending": [name for name in functions if name != "wq_barrier_func"],
        }
    return found


def _judge_work_queues(program: Any, ours: dict[str, Any], verdict: Verdict) -> None:
    from drgn.helpers.linux import list_for_each_entry

    def base(name: str | None) -> str:
        return OF_MODULE if name and name.endswith("]") else name or ""

    pools = {pool["id"]: pool for pool in ours["pools"]}
    for number, theirs in _pools(program).items():
        pool = pools.get(number)
        # A pool of no queue has no work.
        if pool is None:
            verdict.require(not theirs["busy"] and not theirs["pending"], f"pool {number} is missing")
            continue
        busy = {
            worker["task"]["pid"]: (base(worker["item"].get("function")), worker["item"].get("queue"))
            for worker in pool["busy"]
        }
        found = {
            "workers": pool["workers"],
            "cpu": pool.get("cpu", -1),
            "busy": busy,
            "pending": [base(item.get("function")) for item in pool["pending"]],
        }
        verdict.require(found == theirs, f"pool {number}: bigiron says {found}, drgn {theirs}")
        verdict.count("busy workers", len(busy))
        verdict.count("pending items", len(theirs["pending"]))
    heads = program["workqueues"].address_of_()
    names = sorted(queue.name.string_().decode() for queue in list_for_each_entry("struct workqueue_struct", heads, "list"))
    verdict.require(names == sorted(queue["name"] for queue in ours["queues"]), f"work queues: drgn says {names}")
    verdict.count("work queues", len(names))


def _judge_mounts(program: Any, ours: dict[str, Any], verdict: Verdict) -> None:
    from drgn.helpers.linux import d_path, for_each_mount, for_each_task, mount_fstype, mount_src

    namespaces = {int(task.nsproxy.mnt_ns): task.nsproxy.mnt_ns for task in for_each_task(program) if task.nsproxy}
    found = {int(one["address"], 16): one for one in ours["namespaces"]}
    verdict.require(set(found) == set(namespaces), f"namespaces: bigiron says {set(found)}, drgn {set(namespaces)}")
    for address, namespace in namespaces.items():
        theirs = {}
        for mount in for_each_mount(namespace):
            read_only = bool(int(mount.mnt.mnt_flags) & READ_ONLY or int(mount.mnt.mnt_sb.s_flags) & 1)
            theirs[int(mount.mnt_id)] = (
                mount_src(mount).decode(),
                # The path as the root of the namespace sees it.
                d_path(mount.mnt.address_of_(), mount.mnt.mnt_root).decode(),
                mount_fstype(mount).decode(),
                "ro" if read_only else "rw",
                int(mount.mnt.mnt_sb.s_writers.frozen) != 0,
            )
        mounts = {}
        for mount in found.get(address, {"mounts": []})["mounts"]:
            kind = mount["filesystem"]
            mounts[mount["id"]] = (mount["device"], mount["path"], kind, mount["options"][0], "frozen" in mount)
        for number, expected in theirs.items():
            told = mounts.get(number)
            verdict.require(told == expected, f"mount {number}: bigiron says {told}, drgn {expected}")
            verdict.count("mounts")
        # The root of a namespace is in no list.
        verdict.require(len(set(mounts) - set(theirs)) <= 1, f"mounts {set(mounts) - set(theirs)} are not drgn's")


def _judge_interrupts(program: Any, ours: dict[str, Any], verdict: Verdict) -> None:
    from drgn.helpers.linux import for_each_online_cpu, per_cpu
    from drgn.helpers.linux.irq import for_each_irq_desc, irq_desc_action_names, irq_desc_chip_name, irq_desc_kstat_cpu

    cpus = list(for_each_online_cpu(program))
    verdict.require(ours["cpus"] == cpus, f"CPUs: bigiron says {ours['cpus']}, drgn {cpus}")
    lines = {line["number"]: line for line in ours["lines"]}
    for number, descriptor in for_each_irq_desc(program):
        line = lines.pop(number, None)
        if not verdict.require(line is not None, f"interrupt {number} is missing"):
            continue
        chip = irq_desc_chip_name(descriptor)
        expected = (
            chip.decode() if chip is not None else None,
            [name.decode() for name in irq_desc_action_names(descriptor)],
            [irq_desc_kstat_cpu(descriptor, cpu) for cpu in cpus],
        )
        found = (line.get("controller"), [action["name"] for action in line["actions"]], line["counts"])
        verdict.require(found == expected, f"interrupt {number}: bigiron says {found}, drgn {expected}")
        verdict.count("interrupts")
    verdict.require(not lines, f"interrupts {list(lines)} are not drgn's")
    for number, counts in enumerate(ours["soft"]):
        expected = [int(per_cpu(program["kstat"], cpu).softirqs[number]) for cpu in cpus]
        verdict.require(counts["counts"] == expected, f"softirqs {counts}: drgn says {expected}")
    named = {counts["name"]: counts["counts"] for counts in ours["of_cpus"]}
    for name, member in (("LOC", "apic_timer_irqs"), ("RES", "irq_resched_count"), ("CAL", "irq_call_count")):
        expected = [int(per_cpu(program["irq_stat"], cpu).member_(member)) for cpu in cpus]
        verdict.require(named.get(name) == expected, f"{name}: bigiron says {named.get(name)}, drgn {expected}")


def judge(vmlinux: Path, dump: Path, bigiron: Path) -> Verdict:
    """Compares one dump."""
    import drgn

    verdict = Verdict(f"work queues, mounts and interrupts of {dump}")
    words = [bigiron, "info", "--workqueues", "--mounts", "--irq", "--json", dump]
    ours = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    program = drgn.Program()
    program.set_core_dump(str(dump))
    program.load_debug_info([str(vmlinux)])
    _judge_work_queues(program, ours["workqueues"], verdict)
    _judge_mounts(program, ours["mounts"], verdict)
    _judge_interrupts(program, ours["irq"], verdict)
    return verdict


if __name__ == "__main__":
    sys.exit(drgn_dumps.main(__doc__, judge))
