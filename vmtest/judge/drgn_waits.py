#!/usr/bin/env python3
"""Judges whether drgn, with debug symbols, reads the same locks and owners of waiting tasks as `bigiron info --waits`,
what they are part of, and the same calls that CPUs wait for.

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
    ("folio_wait_bit_common", "folio", "page"),
    ("__lock_buffer", "bh", "buffer"),
    ("__wait_on_buffer", "bh", "buffer"),
    # The entry in the wait queue, which is on the stack: its key has the word.
    ("out_of_line_wait_on_bit", "wq_entry", "word"),
)
OF_FUTEXES = ("futex_lock_pi", "futex_wait_requeue_pi")

# An owner is kept as a signed number, with three flags.
ADDRESS = (1 << 64) - 8


@dataclass(frozen=True)
class Seen:
    """What a task waits for, and the task_struct of the owner, 0 if the lock names none."""

    kind: str
    address: int
    owner: int
    lock: Any


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
        names = [frame.name or "" for frame in program.stack_trace(task)]
        kind = "futex" if any(name.startswith(OF_FUTEXES) for name in names) else "rt-mutex"
        return Seen(kind, int(lock), _owner("rt-mutex", lock), lock)
    for frame in program.stack_trace(task):
        for beginning, variable, kind in FUNCTIONS:
            if not (frame.name or "").startswith(beginning):
                continue
            try:
                lock = frame[variable]
                if lock.absent_:
                    continue
                if kind == "word":
                    lock = lock.key.flags
                return Seen(kind, int(lock), _owner(kind, lock), lock)
            except (KeyError, drgn.ObjectAbsentError, AttributeError):
                continue
    return None


def _file(inode: Any) -> dict[str, Any]:
    """What is said of a file: the same facts, by drgn's helpers."""
    from drgn.helpers.linux.fs import inode_path

    path = inode_path(inode)
    return {
        "inode": int(inode.i_ino),
        "filesystem": inode.i_sb.s_type.name.string_().decode(),
        "path": "/" + path.decode() if path else None,
    }


def _same_file(found: dict[str, Any], inode: Any) -> bool:
    expected = _file(inode)
    if expected["filesystem"] == "bdev":
        del expected["path"]
    return all(found.get(name) == value for name, value in expected.items())


def _is_part(program: Any, lock: Any, thing: dict[str, Any]) -> bool:
    """Compares what a lock is part of."""
    from drgn import cast, container_of
    from drgn.helpers.linux.mm import page_to_pfn

    match thing["what"]:
        case "page":
            page = cast("struct page *", lock)
            host = page.mapping.host
            same = (thing["frame"], thing["index"]) == (int(page_to_pfn(page)), int(page.index))
            return same and _same_file(thing["file"], host)
        case "buffer":
            # The state of a buffer is its first member.
            lock = cast("struct buffer_head *", lock)
            name = lock.b_bdev.bd_device.kobj.name.string_().decode()
            return (thing["device"], thing["block"], thing["size"]) == (name, int(lock.b_blocknr), int(lock.b_size))
        case "inode":
            return _same_file(thing["file"], container_of(lock, "struct inode", thing["member"]))
        case "memory":
            memory = container_of(lock, "struct mm_struct", thing["member"])
            return any(int(task.mm) == int(memory) for task in _named(program, thing["task"]["pid"]))
        case "futex":
            state = container_of(lock, "struct futex_pi_state", "pi_mutex")
            offset = int(state.key.both.offset)
            of_file = int(state.key.shared.pgoff) * 4096 if offset & 1 else int(state.key.private.address)
            return int(thing["address"], 16) == of_file + (offset & ~3)
        case "object":
            from drgn.helpers.linux.slab import find_containing_slab_cache

            cache = find_containing_slab_cache(lock)
            return bool(cache) and cache.name.string_().decode() == thing["cache"]
    return False


def _named(program: Any, pid: int) -> list[Any]:
    from drgn.helpers.linux.pid import find_task

    task = find_task(program, pid)
    return [task] if task else []


def _calls(program: Any) -> set[tuple[int, int]]:
    """Returns who waits for whom: a CPU that has a request on its stack, and the one in whose queue that is; or a CPU
    that asks many, and each that has not answered."""
    from drgn.helpers.linux import cpu_curr, for_each_online_cpu, llist_for_each_entry, per_cpu, per_cpu_ptr

    cpus = list(for_each_online_cpu(program))
    queued: dict[int, int] = {}
    for cpu in cpus:
        first = per_cpu(program["call_single_queue"], cpu).first
        for request in llist_for_each_entry("struct __call_single_data", first, "node.llist"):
            queued[int(request)] = cpu
    found = set()
    for cpu in cpus:
        for frame in program.stack_trace(cpu_curr(program, cpu)):
            if frame.name == "smp_call_function_single" and not frame["csd_stack"].absent_:
                target = queued.get(frame["csd_stack"].address_)
                found |= {(cpu, target)} if target is not None else set()
            if frame.name == "smp_call_function_many_cond":
                data = per_cpu(program["cfd_data"], cpu)
                requests = data.pcpu if hasattr(data, "pcpu") else data.csd
                for target in cpus:
                    request = per_cpu_ptr(requests, target)
                    flags = int((request.csd if hasattr(data, "pcpu") else request).node.u_flags)
                    found |= {(cpu, target)} if target != cpu and flags & 1 else set()
    return found


def read(program: Any) -> tuple[dict[int, Seen], int]:
    """Returns what each task in state D, and each that waits for a futex with an owner, waits for, and the number of
    tasks of which drgn does not know it."""
    from drgn.helpers.linux import for_each_task, task_state_to_char

    found, unknown = {}, 0
    for task in for_each_task(program):
        if task_state_to_char(task) != "D" and not int(task.pi_blocked_on):
            continue
        seen = _seen(program, task)
        if seen:
            found[task.pid.value_()] = seen
        else:
            unknown += 1
    return found, unknown


def judge(vmlinux: Path, dump: Path, bigiron: Path) -> Verdict:
    """Compares the waits of one dump."""
    import drgn

    verdict = Verdict(f"waits of {dump}")
    done = subprocess.run([bigiron, "info", "--waits", "--json", dump], capture_output=True, check=True)
    told = json.loads(done.stdout)["waits"]
    ours = {wait["task"]["pid"]: wait for wait in told["waits"]}
    program = drgn.Program()
    program.set_core_dump(str(dump))
    program.load_debug_info([str(vmlinux)])
    theirs, unknown = read(program)
    verdict.count("not known to drgn", unknown)
    verdict.count("locks compared", len(theirs))
    for pid, seen in sorted(theirs.items()):
        on = ours.get(pid, {}).get("on")
        if not verdict.require(on is not None, f"PID {pid}: drgn says {seen}, bigiron nothing"):
            continue
        if on["kind"] == "work" and seen.kind == "completion":
            verdict.require(int(on["address"], 16) == seen.address, f"PID {pid}: {on['address']} is not {seen}")
            continue
        kinds = ("bit", "buffer") if seen.kind == "word" else (seen.kind,)
        same = on["kind"] in kinds and int(on["address"], 16) == seen.address
        verdict.require(same, f"PID {pid}: bigiron says {on['kind']} {on['address']}, drgn {seen}")
        owners = {int(holder["address"], 16) for holder in on["holders"] if holder["holds"] == "owner"}
        expected = {seen.owner} if seen.owner else set()
        verdict.require(owners == expected, f"PID {pid}: owners {owners} are not {expected}")
        if thing := on.get("of"):
            verdict.count(f"parts of {thing['what']}")
            verdict.require(_is_part(program, seen.lock, thing), f"PID {pid}: {on['address']} is not part of {thing}")
    calls = {(call["cpu"], call["target"]) for call in told["calls"]}
    theirs_of_cpus = _calls(program)
    verdict.require(calls == theirs_of_cpus, f"CPUs that wait for others: bigiron says {calls}, drgn {theirs_of_cpus}")
    verdict.count("calls", len(calls))
    return verdict


if __name__ == "__main__":
    sys.exit(drgn_dumps.main(__doc__, judge))
