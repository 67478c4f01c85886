#!/usr/bin/env python3
"""Judges whether `bigiron sym` and `bigiron type` report the same as drgn with debug symbols.

bigiron uses kallsyms and BTF from the dump; drgn uses the symbol table and DWARF of vmlinux.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import by_symbols
from tools import Bigiron
from verdict import Verdict

SYMBOLS = ("init_task", "schedule", "linux_banner", "init_top_pgt", "jiffies", "init_uts_ns", "vfs_read", "slab_caches")
STRUCTS = ("page", "task_struct", "mm_struct", "file", "inode", "super_block", "module", "rq", "zone", "pglist_data",
           "sk_buff", "kmem_cache", "signal_struct", "file_operations", "cred", "list_head")
ENUMERATIONS = ("zone_type", "pageflags", "migratetype")


def of_drgn(members: Any) -> Iterator[tuple[str, int, int | None]]:
    """Yields name, offset in bits, and bits of a bit field of each named member, including those in unnamed
    structs."""
    for member in members:
        if member.name is None:
            inner = ((name, offset + member.bit_offset, bits) for name, offset, bits in of_drgn(member.type.members))
            yield from inner
        else:
            yield member.name, member.bit_offset, member.bit_field_size


def of_bigiron(fields: list[dict[str, Any]]) -> Iterator[tuple[str, int, int | None]]:
    """Yields the same from `bigiron type --json`."""
    for field in fields:
        if "name" not in field:
            yield from of_bigiron(field.get("members", []))
        else:
            first, bits = field.get("bits", (0, None))
            yield field["name"], field["offset"] * 8 + first, bits


def judge(bigiron: Bigiron, vmlinux: str | Path, dump: Path, openable: str | Path) -> Verdict:
    """Compares bigiron's output for `dump` with drgn's for `openable`, the same memory."""
    import drgn

    verdict = Verdict("sym and type")
    program = drgn.Program()
    program.set_core_dump(str(openable))
    program.load_debug_info([str(vmlinux)])
    for found in bigiron.named("sym", dump, SYMBOLS):
        address = program.symbol(found["name"]).address
        verdict.require(int(found["address"], 16) == address, f"{found['name']} is at {address:x}, not {found['address']}")
        verdict.count("symbols")
    for name, found in zip(STRUCTS, bigiron.named("type", dump, STRUCTS), strict=True):
        theirs = program.type(f"struct {name}")
        verdict.require(found["size"] == theirs.size, f"struct {name} has {theirs.size} bytes, not {found['size']}")
        ours, wanted = list(of_bigiron(found["members"])), list(of_drgn(theirs.members))
        verdict.require(ours == wanted, f"struct {name}: {set(ours) ^ set(wanted)}")
        verdict.count("members", len(ours))
    for name, found in zip(ENUMERATIONS, bigiron.named("type", dump, ENUMERATIONS), strict=True):
        theirs = [(value.name, value.value) for value in program.type(f"enum {name}").enumerators]
        verdict.require([tuple(value) for value in found["values"]] == theirs, f"enum {name}: {found['values']}, drgn {theirs}")
    return verdict


if __name__ == "__main__":
    sys.exit(by_symbols.main(__doc__, judge))
