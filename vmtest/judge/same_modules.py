#!/usr/bin/env python3
"""Judges whether bigiron finds the same modules, with the same symbols and types, as drgn.

bigiron uses kallsyms and BTF from the dump; drgn uses the DWARF of vmlinux and the kernel's structures.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import by_symbols
import crash_text
from tools import Bigiron
from verdict import CannotJudge, Verdict

SYMBOL = 24
"""Bytes of an Elf64_Sym."""


def memory_of(module: Any) -> list[tuple[int, int]]:
    """Returns start and size of each memory of a struct module."""
    try:
        parts = [part for part in module.mem]
    except AttributeError:
        parts = [module.core_layout, module.init_layout]
    return [(part.base.value_(), part.size.value_()) for part in parts if part.size.value_()]


def build_id(module: Any) -> str | None:
    """Returns the build id in the notes that /sys/module/NAME/notes shows."""
    notes = module.notes_attrs
    for index in range(notes.notes.value_() if notes else 0):
        attribute = notes.attrs[index]
        if attribute.attr.name.string_() == b".note.gnu.build-id":
            return module.prog_.read(attribute.private.value_(), attribute.size.value_())[16:].hex()
    return None


def by_drgn(program: Any) -> list[dict[str, Any]]:
    """Returns all modules, from struct module."""
    from drgn.helpers.linux.list import list_for_each_entry

    found = []
    for module in list_for_each_entry("struct module", program["modules"].address_of_(), "list"):
        users = list_for_each_entry("struct module_use", module.source_list.address_of_(), "source_list")
        memory = memory_of(module)
        found.append({
            "name": module.name.string_().decode(),
            "address": module.value_(),
            "base": memory[0][0],
            "size": sum(size for _, size in memory),
            "state": module.state.format_(type_name=False).removeprefix("MODULE_STATE_").lower(),
            "references": module.refcnt.counter.value_() - 1,
            "used_by": [user.source.name.string_().decode() for user in users],
            "regions": memory,
            "build_id": build_id(module),
        })
    return found


def by_bigiron(modules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the same from `bigiron info --modules --json`."""
    def one(module: dict[str, Any]) -> dict[str, Any]:
        same = {name: module[name] for name in ("name", "size", "state", "references", "used_by")}
        same |= {name: int(module[name], 16) for name in ("address", "base")}
        same["build_id"] = module.get("build_id")
        same["regions"] = [(int(region["start"], 16), region["size"]) for region in module["regions"]]
        return same

    return [one(module) for module in modules]


def symbols_of(module: Any) -> dict[str, set[tuple[int, str]]]:
    """Returns addresses and letters of each name in a module's kallsyms, read as the kernel reads them."""
    program, tables = module.prog_, module.kallsyms
    count = tables.num_symtab.value_()
    raw = program.read(tables.symtab.value_(), SYMBOL * count)
    found: dict[str, set[tuple[int, str]]] = {}
    for index in range(1, count):
        symbol = raw[SYMBOL * index : SYMBOL * (index + 1)]
        offset = int.from_bytes(symbol[:4], "little")
        name = program.read_c_string(tables.strtab.value_() + offset).decode()
        if name and int.from_bytes(symbol[6:8], "little"):
            letter = chr(program.read_u8(tables.typetab.value_() + index))
            found.setdefault(name, set()).add((int.from_bytes(symbol[8:16], "little"), letter))
    return found


def judge_symbols(bigiron: Bigiron, dump: Path, modules: Iterable[Any], verdict: Verdict) -> None:
    """Judges that each symbol of each module is found by its name, and each function by its address."""
    for module in modules:
        name = module.name.string_().decode()
        wanted = symbols_of(module)
        output: dict[str, set[tuple[int, str]]] = {}
        for found in bigiron.named("sym", dump, wanted):
            if found.get("module") == name:
                output.setdefault(found["name"], set()).add((int(found["address"], 16), found["kind"]))
        verdict.require(output == wanted, f"{name}: {set(output) ^ set(wanted)}")
        verdict.count("symbols of modules", len(wanted))
        functions = {address: symbol for symbol, places in wanted.items() for address, kind in places if kind in "tT"}
        inside = [address for address in functions if memory_of(module)[0][0] <= address < sum(memory_of(module)[0])]
        answers = bigiron.named("sym", dump, [f"{address + 1:x}" for address in inside])
        verdict.require(len(answers) == len(inside), f"{name}: {len(answers)} of {len(inside)} addresses found")
        for address, found in zip(inside, answers, strict=False):
            names = {symbol for symbol, places in wanted.items() if any(place == address for place, _ in places)}
            same = found["name"] in names and found.get("module") == name and found["offset"] == 1
            verdict.require(same, f"{address + 1:x} is in {names} of {name}, not {found}")


def types_of(program: Any, module: Any) -> tuple[int, int, int]:
    """Returns the number of types in a module's BTF, their first number, and the BTF's bytes."""
    from drgn.helpers.linux.list import list_for_each_entry

    for entry in list_for_each_entry("struct btf_module", program["btf_modules"].address_of_(), "list"):
        if entry.module == module:
            return entry.btf.nr_types.value_(), entry.btf.start_id.value_(), entry.btf.data_size.value_()
    return 0, 0, 0


MODULE_TYPES = {
    "virtio_blk": ("struct virtio_blk", "struct virtblk_req"),
    "virtio_balloon": ("struct virtio_balloon",),
    "virtio_pci": ("struct virtio_pci_device",),
    "virtio_ring": ("struct vring_virtqueue",),
}
"""Types that exist only in a module, by the module's name."""


def judge(bigiron: Bigiron, vmlinux: str | Path, dump: Path, openable: str | Path) -> Verdict:
    """Compares bigiron's output for `dump` with drgn's for `openable`, the same memory."""
    import drgn
    from drgn.helpers.linux.list import list_for_each_entry

    verdict = Verdict("modules")
    program = drgn.Program()
    program.set_core_dump(str(openable))
    program.load_debug_info([str(vmlinux)])
    theirs, listed = by_drgn(program), bigiron.info(dump, "--modules")["modules"]
    ours = by_bigiron(listed["list"])
    verdict.require(ours == theirs, f"modules: ours {ours}, drgn {theirs}")
    verdict.require(len(theirs) > 2, f"{len(theirs)} modules are too few to judge")
    verdict.count("modules", len(theirs))
    modules = list(list_for_each_entry("struct module", program["modules"].address_of_(), "list"))
    judge_symbols(bigiron, dump, modules, verdict)
    for module in modules:
        name = module.name.string_().decode()
        if not types_of(program, module)[0]:
            continue
        for written, found in zip(MODULE_TYPES.get(name, ()), bigiron.named("type", dump, MODULE_TYPES.get(name, ())), strict=True):
            same = found.get("module") == name and found["size"] > 0 and found["members"]
            verdict.require(bool(same), f"{written} of {name}: {found}")
            verdict.count("types of modules")
    return verdict


def judge_by_crash(bigiron: Bigiron, vmlinux: str | Path, dump: Path, openable: str | Path) -> Verdict:
    """Compares bigiron's output for `dump` with crash's `mod` and `sym -m` of `openable`, the same memory."""
    modules = bigiron.info(dump, "--modules")["modules"]["list"]
    lists = tuple(f"sym -m {module['name']}" for module in modules)
    (answers,) = crash_text.run(str(vmlinux), [str(openable)], ("sys", "mod", *lists))
    if not answers.opened:
        words = " / ".join(filter(None, answers.start_up))[:200]
        raise CannotJudge(f"crash does not open it: {words or 'no output'}")
    verdict = Verdict("modules, by crash")
    rows = [re.match(r"([0-9a-f]{16}) +(\S+) +([0-9a-f]{16}) +(\d+) ", line) for line in answers.commands["mod"]]
    theirs = {(row[2], int(row[1], 16), int(row[3], 16), int(row[4])) for row in rows if row}
    ours = {(each["name"], int(each["address"], 16), int(each["base"], 16), each["size"]) for each in modules}
    verdict.require(ours == theirs, f"ours {ours - theirs}, crash {theirs - ours}")
    verdict.count("modules", len(theirs))
    for module, command in zip(modules, lists, strict=True):
        symbols = [re.match(r"([0-9a-f]{16}) \((\S)\) (\S+)", line) for line in answers.commands[command]]
        found: dict[str, set[str]] = {}
        for symbol in filter(None, symbols):
            found.setdefault(symbol[1], set()).add(symbol[3])
        verdict.require(len(found) > 2, f"crash has {len(found)} symbols of {module['name']}")
        # bigiron names the first of several symbols at one address. crash omits suffixes that compilers add after a
        # dot.
        for address, each in zip(found, bigiron.named("sym", dump, found), strict=True):
            same = any(f"{each['name']}.".startswith(f"{name}.") for name in found[address])
            whole = same and each["offset"] == 0 and each.get("module") == module["name"]
            verdict.require(whole, f"{module['name']}: {address} is {each}, crash {found[address]}")
        verdict.count("symbols of modules", len(found))
    return verdict


def judge_by_both(bigiron: Bigiron, vmlinux: str, dump: Path, openable: Path) -> Verdict:
    """Compares with drgn, and with crash if it opens the dump."""
    verdict = judge(bigiron, vmlinux, dump, openable)
    try:
        verdict.merge(judge_by_crash(bigiron, vmlinux, dump, openable))
    except CannotJudge as reason:
        verdict.note(str(reason))
    return verdict


if __name__ == "__main__":
    sys.exit(by_symbols.main(__doc__, judge_by_both))
