#!/usr/bin/env python3
"""Judges whether `bigiron info --memory --pages` counts the same as drgn with debug symbols, and as crash.

Slab caches and the kernel's counters are compared with drgn's. The classes of pages must equal the counts of a dump of
level 31. Classes that no dump excludes are counted again by drgn, from page->flags and page->page_type.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crash_text
import peers_venv
from elfcore import ElfCore
from tools import Bigiron
from verdict import CannotJudge, Verdict

PAGE = 4096
# Struct pages read at once.
STRETCH = 64
DUMPED = ("cache", "cache_private", "user", "free", "unaccepted", "hwpoison", "offline")
FLAGGED = ("slab", "page_table", "reserved")


class Peer:
    """drgn on a vmcore that it opens."""

    def __init__(self, vmlinux: str | Path, core: str | Path) -> None:
        import drgn

        self.drgn = drgn
        self.program = drgn.Program()
        self.program.set_core_dump(str(core))
        self.program.load_debug_info([str(vmlinux)])

    def slab_caches(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Yields each cache's address and numbers."""
        from drgn.helpers.linux import for_each_online_node, for_each_slab_cache
        from drgn.helpers.linux.list import list_for_each_entry

        nodes = list(for_each_online_node(self.program))
        for cache in for_each_slab_cache(self.program):
            slabs = objects = 0
            for node in nodes:
                of_node = cache.node[node]
                slabs += of_node.nr_slabs.counter.value_()
                objects += of_node.total_objects.counter.value_()
                for slab in list_for_each_entry("struct slab", of_node.partial.address_of_(), "slab_list"):
                    assert slab.slab_cache == cache
            order = cache.oo.x.value_() >> 16
            yield f"{cache.value_():x}", {
                "name": cache.name.string_().decode(),
                "object_size": cache.object_size.value_(),
                "size": cache.size.value_(),
                "per_slab": cache.oo.x.value_() & 0xFFFF,
                "slabs": slabs,
                "objects": objects,
                "bytes": slabs * PAGE << order,
            }

    def in_use(self) -> Counter[str]:
        """Returns the allocated objects by cache name; drgn counts them one by one in a few caches."""
        from drgn.helpers.linux import for_each_slab_cache, slab_cache_for_each_allocated_object

        found: Counter[str] = Counter()
        for cache in for_each_slab_cache(self.program):
            name = cache.name.string_().decode()
            if name in ("task_struct", "mm_struct", "dentry", "ext4_inode_cache", "bio-256"):
                found[name] += sum(1 for _ in slab_cache_for_each_allocated_object(cache, "void"))
        return found

    def counters(self) -> dict[str, int]:
        """Returns vm_zone_stat and vm_node_stat by the enumerators' names."""
        found = {}
        for table, names in (("vm_zone_stat", "zone_stat_item"), ("vm_node_stat", "node_stat_item")):
            values = self.program[table]
            for enumerator in self.program.type(f"enum {names}").enumerators:
                if not enumerator.name.startswith("NR_VM_"):
                    found[enumerator.name] = values[enumerator.value].counter.value_()
        return found

    def _page_type(self, name: str) -> tuple[int, int]:
        """Returns the bits of _mapcount that denote a type, and their value for it."""
        by_name = {}
        for enumeration in ("enum pagetype", "enum pageflags"):
            try:
                enumerators = self.program.type(enumeration).enumerators
            except LookupError:
                continue
            by_name |= {one.name: one.value for one in enumerators}
        if f"PGTY_{name}" in by_name:
            return 0xFF000000, by_name[f"PGTY_{name}"] << 24
        # A macro before 6.11: PG_table is 0x200 in 5.11 to 6.10.
        if name == "table":
            return 0xF0000000 | 0x200, 0xF0000000
        return 0, 1

    def flagged(self, ram: list[tuple[int, int]]) -> Counter[str]:
        """Returns slabs, page tables and reserved pages among page frames of RAM that no dump excludes."""
        from drgn.helpers.linux import pfn_to_page

        size = self.program.type("struct page").size
        # _mapcount is in an unnamed union.
        mapcount_at = self.drgn.offsetof(self.program.type("struct page"), "_mapcount")
        head_at = self.drgn.offsetof(self.program.type("struct page"), "compound_head")
        flags = {one.name: one.value for one in self.program.type("enum pageflags").enumerators}
        slab_type, table_type = self._page_type("slab"), self._page_type("table")
        offline, buddy = self._page_type("offline"), self._page_type("buddy")
        slab_bit = 1 << flags["PG_slab"] if slab_type == (0, 1) else 0
        found: Counter[str] = Counter()

        def is_type(mapcount: int, one: tuple[int, int]) -> bool:
            return mapcount & one[0] == one[1]

        def count(page: bytes) -> None:
            head = struct.unpack_from("<Q", page, head_at)[0]
            if head & 1:
                page = self.program.read(head - 1, size)
            word, = struct.unpack_from("<Q", page, 0)
            mapcount, = struct.unpack_from("<I", page, mapcount_at)
            if word & slab_bit or is_type(mapcount, slab_type):
                found["slab"] += 1
            elif is_type(mapcount, offline) or is_type(mapcount, buddy):
                return
            elif is_type(mapcount, table_type):
                found["page_table"] += 1
            elif word >> flags["PG_reserved"] & 1 and not word >> flags.get("PG_hwpoison", 63) & 1:
                found["reserved"] += 1

        for start, end in ram:
            first = pfn_to_page(self.program, start).value_()
            for at in range(first, first + (end - start) * size, STRETCH * size):
                stretch = min(STRETCH * size, first + (end - start) * size - at)
                try:
                    pages = self.program.read(at, stretch)
                except self.drgn.FaultError:
                    # Device memory: no struct pages.
                    continue
                for offset in range(0, stretch, size):
                    count(pages[offset : offset + size])
        return found


def ram_of(core: str | Path) -> list[tuple[int, int]]:
    """Returns the page frames of an ELF core, as ranges."""
    frames: set[int] = set()
    for segment in ElfCore(core).segments:
        frames.update(range(-(-segment.paddr // PAGE), (segment.paddr + segment.memsz) // PAGE))
    ranges: list[tuple[int, int]] = []
    for frame in sorted(frames):
        if ranges and ranges[-1][1] == frame:
            ranges[-1] = (ranges[-1][0], frame + 1)
        else:
            ranges.append((frame, frame + 1))
    return ranges


def judge_slabs(ours: dict[str, Any], peer: Peer, verdict: Verdict) -> None:
    """Compares slab caches by name and numbers; several caches may share a name."""
    names = ("name", "object_size", "size", "per_slab", "slabs", "objects", "bytes")
    theirs = Counter(tuple(cache[name] for name in names) for _, cache in peer.slab_caches())
    output = Counter(tuple(cache[name] for name in names) for cache in ours["caches"])
    verdict.count("slab caches", sum(output.values()))
    verdict.require(output == theirs, f"slab caches: only ours {list((output - theirs))[:3]}, drgn {list((theirs - output))[:3]}")
    verdict.require(not ours["warnings"], f"slab caches: {ours['warnings'][:3]}")
    allocated = peer.in_use()
    in_use = Counter({cache["name"]: cache["in_use"] for cache in ours["caches"] if cache["name"] in allocated})
    verdict.count("caches whose objects were counted one by one", len(allocated))
    verdict.require(in_use == allocated, f"objects in use: ours {dict(in_use)}, drgn {dict(allocated)}")


def judge_crash(ours: dict[str, Any], vmlinux: str | Path, core: str | Path, verdict: Verdict) -> None:
    """Compares with crash, for kernels that it opens."""
    try:
        (output,) = crash_text.run(str(vmlinux), [str(core)], ("sys", "kmem -i", "kmem -s"))
    except CannotJudge as reason:
        verdict.note(str(reason))
        return
    if not output.opened:
        verdict.note("crash does not open this kernel")
        return
    pages = {}
    for line in output.commands["kmem -i"]:
        words = line.replace(" MEM", "_MEM").replace(" HUGE", "_HUGE").split()
        if len(words) > 1 and words[1].isdigit():
            pages[words[0]] = int(words[1])
    counters = ours["counters"]
    verdict.require(pages["TOTAL_MEM"] == ours["total"], f"total: crash {pages['TOTAL_MEM']}, ours {ours['total']}")
    verdict.require(pages["FREE"] == counters["NR_FREE_PAGES"], f"free: crash {pages['FREE']}")
    huge = sum(pool["total"] * pool["size"] for pool in ours["huge"]) // PAGE
    verdict.require(pages.get("TOTAL_HUGE", 0) == huge, f"huge pages: crash {pages.get('TOTAL_HUGE')}, ours {huge}")
    rows = [line.split() for line in output.commands["kmem -s"][1:]]
    theirs = Counter((row[6], int(row[1]), int(row[3]), int(row[4])) for row in rows if len(row) == 7 and row[1].isdigit())
    wanted = Counter((one["name"], one["object_size"], one["objects"], one["slabs"]) for one in ours["slabs"]["caches"])
    verdict.count("slab caches by crash", sum(theirs.values()))
    missing = theirs - wanted
    verdict.require(bool(theirs) and not missing, f"slab caches only in crash: {list(missing)[:3]}")


def judge(
    bigiron: Bigiron, vmlinux: str | Path, dump: Path, vmcore: Path, openable: str | Path
) -> Verdict:
    """Compares bigiron's output for `dump`, made from `vmcore`, with the data in `openable`, the same memory."""
    verdict = Verdict("memory")
    output = bigiron.info(dump, "--memory", "--pages")
    memory, pages = output["memory_use"], output["page_classes"]
    peer = Peer(vmlinux, openable)
    theirs = peer.counters()
    verdict.count("counters", len(theirs))
    verdict.require(memory["counters"] == theirs,
                    f"counters: {[(name, memory['counters'].get(name), theirs[name]) for name in theirs if memory['counters'].get(name) != theirs[name]][:3]}")
    total = peer.program["_totalram_pages"].counter.value_()
    verdict.require(memory["total"] == total, f"RAM for the allocator: ours {memory['total']}, drgn {total}")
    judge_slabs(memory["slabs"], peer, verdict)
    judge_crash(memory, vmlinux, openable, verdict)
    classes = pages["classes"]
    verdict.require(sum(classes.values()) == pages["ram"], f"classes add up to {sum(classes.values())} of {pages['ram']}")
    ram = ram_of(openable)
    frames = sum(end - start for start, end in ram)
    excluded = bigiron.dump_summary(vmcore, 31)["pages"]["excluded"]
    # A kdump-compressed file ends at the last struct page.
    verdict.require(pages["ram"] in (frames, frames - excluded["device"]),
                    f"page frames of RAM: ours {pages['ram']}, the ELF core {frames}, of devices {excluded['device']}")
    found = peer.flagged(ram)
    for name in FLAGGED:
        verdict.require(classes[name] == found[name], f"{name}: ours {classes[name]} page frames, drgn {found[name]}")
    for name in DUMPED:
        verdict.require(classes[name] == excluded[name], f"{name}: {classes[name]} page frames, a dump counts {excluded[name]}")
    cached = sum(one["pages"] for one in pages["files"]) + pages["without_file"]
    verdict.require(cached == classes["cache"] + classes["cache_private"], f"files have {cached} pages of the page cache")
    verdict.count("page frames", pages["ram"])
    return verdict


def main() -> int:
    peers_venv.run_inside()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bigiron", type=Path)
    parser.add_argument("vmlinux", help="with debug symbols, of the dump's kernel")
    parser.add_argument("dump", type=Path)
    parser.add_argument("--vmcore", type=Path, help="source of the dump, if the dump is not the vmcore itself")
    arguments = parser.parse_args()
    vmcore = arguments.vmcore or arguments.dump
    return judge(Bigiron(arguments.bigiron), arguments.vmlinux, arguments.dump, vmcore, vmcore).finish()


if __name__ == "__main__":
    sys.exit(main())
