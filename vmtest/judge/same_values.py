#!/usr/bin/env python3
"""Judges whether `bigiron read` decodes memory as drgn with debug symbols does, member by member.

bigiron uses BTF from the dump; drgn uses the DWARF of vmlinux.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import by_symbols
from tools import Bigiron
from verdict import Verdict

SUPER_BLOCKS = 6
TASKS = 12
WORDS = {
    "long long unsigned int": "unsigned long long",
    "long unsigned int": "unsigned long",
    "short unsigned int": "unsigned short",
    "long long int": "long long",
    "long int": "long",
    "short int": "short",
}
"""Base types, by the compilers' names and by drgn's."""
FUNCTIONS = ("vfs_read", "schedule", "panic", "printk_sprint", "kmem_cache_alloc", "wake_up_process", "do_exit", "seq_printf",
             "bpf_prog_run_generic_xdp", "request_threaded_irq", "register_chrdev_region", "proc_create", "kthread_create_on_node",
             "iterate_fd", "walk_page_range", "__alloc_pages", "vfs_ioctl", "hrtimer_start_range_ns", "copy_from_kernel_nofault")


def plain(written: str) -> str:
    """Returns a type without parts that programs write differently."""
    for theirs, ours in WORDS.items():
        written = re.sub(rf"\b{theirs}\b", ours, written)
    # Unnamed structs are only `struct` in bigiron, BTF does not distinguish [] from [0], and each program places blanks
    # differently.
    written = written.replace("<anonymous>", "").replace("[0]", "[]")
    return re.sub(r"\s+", "", written)


def faults(value: Any) -> bool:
    """Returns true if drgn cannot read the object either."""
    import drgn

    try:
        value.read_()
    except drgn.FaultError:
        return True
    return False


class Compared:
    """A value from bigiron, compared with an object of drgn."""

    def __init__(self, verdict: Verdict, program: Any) -> None:
        self.verdict, self.program = verdict, program

    def require(self, same: bool, what: str, ours: Any, theirs: Any) -> None:
        self.verdict.require(same, f"{what}: ours {ours!r}, drgn {theirs!r}")

    def value(self, what: str, ours: dict[str, Any], theirs: Any) -> None:
        """Compares one value, including everything in it."""
        kind = ours["kind"]
        if kind == "unread":
            self.require(faults(theirs), what, ours["reason"], "readable")
            self.verdict.count("absent parts")
        elif kind == "struct":
            self.members(what, ours["members"], theirs.type_, theirs)
        elif kind == "array":
            self.array(what, ours, theirs)
        elif kind == "pointer":
            self.pointer(what, ours, theirs)
        elif kind == "text":
            self.require(ours["text"] == theirs.string_().decode(errors="replace"), what, ours["text"], theirs.string_())
            self.verdict.count("values")
        elif kind == "bytes":
            number = int.from_bytes(bytes.fromhex(ours["bytes"]), "little")
            self.require(number == theirs.value_(), what, number, theirs.value_())
        elif kind == "enumeration":
            self.require(ours["value"] == theirs.value_(), what, ours["value"], theirs.value_())
            names = [each.name for each in bare(theirs.type_).enumerators if each.value == theirs.value_()]
            self.require(ours.get("enumerator") in (names or [None]), what, ours.get("enumerator"), names)
            self.verdict.count("values")
        elif kind == "number":
            self.require(ours["value"] == theirs.value_(), what, ours["value"], theirs.value_())
            self.verdict.count("values")
        elif kind != "nothing":
            self.require(False, what, kind, theirs.type_)

    def members(self, what: str, ours: list[dict[str, Any]], type_: Any, outer: Any) -> None:
        """Compares all members of a struct or union, including those in unnamed structs."""
        theirs = bare(type_).members
        names = [member.get("name") for member in ours]
        self.require(names == [member.name for member in theirs], what, names, [member.name for member in theirs])
        for mine, member in zip(ours, theirs, strict=False):
            if member.name is None:
                if mine["kind"] == "struct":
                    self.members(what, mine["members"], member.type, outer)
                continue
            inner = f"{what}.{member.name}"
            written = member.type.type_name()
            self.require(plain(mine["type"]) == plain(written), inner, mine["type"], written)
            self.verdict.count("types")
            self.value(inner, mine, outer.member_(member.name))

    def array(self, what: str, ours: dict[str, Any], theirs: Any) -> None:
        length = bare(theirs.type_).length or 0
        self.require(ours["count"] == length, what, ours["count"], length)
        index = 0
        for run in ours["elements"]:
            for _ in range(run["times"]):
                self.value(f"{what}[{index}]", run, theirs[index])
                index += 1
        self.require(index == length, what, f"{index} elements", length)

    def pointer(self, what: str, ours: dict[str, Any], theirs: Any) -> None:
        value = int(ours["value"], 16)
        self.require(value == theirs.value_(), what, ours["value"], hex(theirs.value_()))
        self.verdict.count("values")
        symbol = re.fullmatch(r"([^+ ]+)(?:\+0x([0-9a-f]+))?", ours.get("symbol", ""))
        if symbol:
            base = value - int(symbol[2] or "0", 16)
            known = [found.address for found in self.program.symbols(symbol[1])]
            self.require(base in known, what, ours["symbol"], known)
            self.verdict.count("pointers with a symbol")
        if "text" in ours:
            text = self.program.read_c_string(value, max_size=256).decode(errors="replace")
            self.require(ours["text"] == text, what, ours["text"], text)
            self.verdict.count("texts behind pointers")


def bare(type_: Any) -> Any:
    """Returns a type without typedefs."""
    import drgn

    while type_.kind == drgn.TypeKind.TYPEDEF:
        type_ = type_.type
    return type_


def places(program: Any) -> Iterator[tuple[list[str], Any]]:
    """Yields the arguments of `bigiron read`, and the objects for drgn."""
    from drgn.helpers.linux import for_each_online_cpu, for_each_task, per_cpu
    from drgn.helpers.linux.list import list_for_each_entry

    for name in ("init_task", "init_mm", "init_uts_ns", "init_net", "init_pid_ns", "init_cred", "iomem_resource", "contig_page_data",
                 "boot_cpu_data", "rcu_state", "root_task_group", "jiffies_64", "saved_command_line"):
        try:
            yield [name], program[name]
        except KeyError:
            continue
    for cpu in for_each_online_cpu(program):
        yield [f"runqueues@{cpu}"], per_cpu(program["runqueues"], cpu)
        yield ["hrtimer_bases", "--cpu", str(cpu)], per_cpu(program["hrtimer_bases"], cpu)
        yield [f"runqueues@{cpu}.curr->comm"], per_cpu(program["runqueues"], cpu).curr.comm
    yield ["init_task.real_parent->comm"], program["init_task"].real_parent.comm
    yield ["init_task.tasks.next"], program["init_task"].tasks.next
    yield ["init_mm->mmap_lock.owner.counter"], program["init_mm"].mmap_lock.owner.counter

    def at(pointer: Any) -> tuple[list[str], Any]:
        target = pointer[0]
        return [f"{pointer.value_():x}", target.type_.type_name()], target

    blocks = list_for_each_entry("struct super_block", program["super_blocks"].address_of_(), "s_list")
    for block, _ in zip(blocks, range(SUPER_BLOCKS), strict=False):
        yield at(block)
        yield at(block.s_root)
        yield at(block.s_root.d_inode)
    for cache, _ in zip(list_for_each_entry("struct kmem_cache", program["slab_caches"].address_of_(), "list"), range(3), strict=False):
        yield at(cache)
    for task, _ in zip(for_each_task(program), range(TASKS), strict=False):
        yield at(task)
        yield at(task.signal)
        if task.mm:
            yield at(task.mm)
    for module in list_for_each_entry("struct module", program["modules"].address_of_(), "list"):
        yield at(module)


def judge_functions(bigiron: Bigiron, dump: Path, program: Any, verdict: Verdict) -> None:
    """Compares the prototypes of functions that both programs know, ignoring blanks and the names of base types."""
    known = []
    for name in FUNCTIONS:
        try:
            known.append((name, program.function(name).type_))
        except LookupError:
            continue
    output = bigiron.named("type", dump, [f"{name}()" for name, _ in known])
    for (name, type_), found in zip(known, output, strict=True):
        theirs = type_.type_name().replace("(", f" {name}(", 1) if "(*" not in type_.type_name() else None
        verdict.require(found["kind"] == "function", f"{name} is {found['kind']}")
        if theirs:
            verdict.require(plain(found["name"]) == plain(theirs), f"{found['name']}, drgn {theirs}")
            verdict.count("prototypes")


def judge(bigiron: Bigiron, vmlinux: str | Path, dump: Path, openable: str | Path) -> Verdict:
    """Compares bigiron's values in `dump` with drgn's in `openable`, the same memory."""
    import drgn

    verdict = Verdict("read")
    program = drgn.Program()
    program.set_core_dump(str(openable))
    program.load_debug_info([str(vmlinux)])
    compared = Compared(verdict, program)
    for arguments, theirs in places(program):
        (output,) = bigiron.named("read", dump, [*arguments, "--full", "--depth", "30"])
        written = theirs.type_.type_name()
        verdict.require(plain(output["type"]) == plain(written), f"{arguments}: {output['type']}, drgn {written}")
        if theirs.address_ is not None:
            verdict.require(int(output["address"], 16) == theirs.address_, f"{arguments}: {output['address']}, drgn {theirs.address_:x}")
        compared.value(" ".join(arguments), output, theirs)
        verdict.count("places")
    judge_functions(bigiron, dump, program, verdict)
    return verdict


if __name__ == "__main__":
    sys.exit(by_symbols.main(__doc__, judge))
