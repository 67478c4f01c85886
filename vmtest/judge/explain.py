#!/usr/bin/env python3
"""Explains page frames in which two dumps of one level differ.

A makedumpfile older than the kernel keeps or drops the wrong pages. This module then decides which dump is correct,
from the source's struct pages, by rules derived from the kernel's sources and not from any dumper. The rules hold for
kernels whose page types are exact values in the top byte of page_type (from 6.12 on, 4ffca5a96678 "mm: support only one
page_type per page"); other kernels are refused.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import bits
import peers_venv
from elfcore import parse_vmcoreinfo
from kdump_layout import Kdump, is_kdump
from verdict import CannotJudge, Verdict

CACHE, CACHE_PRIVATE, USER, FREE = 2, 4, 8, 16
SECTION_FLAGS = 0x1F
PAGE_MAPPING_ANON = 1

TYPED = "4ffca5a96678, 6.12: a page type is an exact value in page_type's top byte"
SLAB = "46df8e73a4a3, 6.10: slab is a page type and no flag, so `mapping` is slab's own"
ORDER = "ebc1baf5c9b4, 6.6: the order of a folio is in the low byte of page[1].flags"
HUGETLB = "d99e3140a4d3, 6.9: hugetlb is a page type and no destructor"
FLAGS = "include/linux/page-flags.h and mm_types.h: flags and mapping"


@dataclass(frozen=True)
class Reason:
    """The reason for excluding or keeping a page frame, and its place in the kernel's source."""

    what: str
    levels: int
    citation: str
    always: bool = False

    def excluded(self, level: int) -> bool:
        """Returns true if a dump of this level excludes such a page."""
        return self.always or bool(level & self.levels)


NO_STRUCT_PAGE = Reason("without a struct page, so no rule applies", 0, "mem_section")


class StructPages:
    """The struct pages of a core, read through drgn's page-table walk."""

    def __init__(self, core: str | Path) -> None:
        import drgn

        self.program = drgn.Program()
        self.program.set_core_dump(str(core))
        text = self.program["VMCOREINFO"].string_()
        self.info = parse_vmcoreinfo(text)
        if "NUMBER(PAGE_SLAB_MAPCOUNT_VALUE)" not in self.info:
            raise CannotJudge(f"{core}: {self.info['OSRELEASE']} has other page types")
        self.page_struct = self.number("SIZE(page)")
        self.per_section = 1 << (self.number("NUMBER(SECTION_SIZE_BITS)") - 12)

    def number(self, key: str) -> int:
        """Returns a value of VMCOREINFO; symbols are bare hexadecimal."""
        value = self.info[key]
        return int(value, 16) if key.startswith("SYMBOL") else int(value, 0)

    @cache
    def _section(self, index: int) -> bytes | None:
        """Returns all struct pages of one section of memory; None if there is none."""
        per_root = 4096 // self.number("SIZE(mem_section)")
        table = self.number("SYMBOL(mem_section)") + index // per_root * 8
        root, = struct.unpack("<Q", self.program.read(table, 8))
        if not root:
            return None
        entry = root + index % per_root * self.number("SIZE(mem_section)")
        entry += self.number("OFFSET(mem_section.section_mem_map)")
        encoded, = struct.unpack("<Q", self.program.read(entry, 8))
        pages = encoded & ~SECTION_FLAGS
        if not pages:
            return None
        first = pages + index * self.per_section * self.page_struct
        return self.program.read(first, self.per_section * self.page_struct)

    def exists(self, pfn: int) -> bool:
        """Returns true if a page frame has a struct page."""
        return self._section(pfn // self.per_section) is not None

    def field(self, pfn: int, name: str, width: str = "Q") -> int:
        """Returns one field of a struct page; pages without one read as zeros."""
        section = self._section(pfn // self.per_section)
        if section is None:
            return 0
        at = pfn % self.per_section * self.page_struct
        at += self.number(f"OFFSET(page.{name})")
        return struct.unpack_from(f"<{width}", section, at)[0]


class Rules:
    """Classifies each page frame by its struct page and its folio's head."""

    def __init__(self, pages: StructPages) -> None:
        self.pages = pages
        number = pages.number
        self.types = {
            name: number(f"NUMBER(PAGE_{name.upper()}_MAPCOUNT_VALUE)") >> 24 & 0xFF
            for name in ("buddy", "slab", "hugetlb", "offline")
        }
        self.flag = {
            name: 1 << number(f"NUMBER(PG_{name})")
            for name in ("lru", "private", "swapcache", "swapbacked", "hwpoison")
        }
        self.head_mask = number("NUMBER(PG_head_mask)")
        self.orders = number("LENGTH(zone.free_area)")

    def free_pages(self, limit: int) -> int:
        """Returns every page frame in a block of the buddy allocator.

        Only a block's first page has the type, so a page's own struct page is not sufficient. The set is computed once,
        block by block.
        """
        free = 0
        for pfn in range(limit):
            if self._type(pfn) == self.types["buddy"]:
                order = self.pages.field(pfn, "private")
                if order < self.orders:
                    free |= bits.span(pfn, pfn + (1 << order))
        return free

    def _type(self, pfn: int) -> int:
        return self.pages.field(pfn, "_mapcount", "I") >> 24

    def head_of(self, pfn: int) -> int:
        """Returns the head of the compound page that a page frame belongs to, or the frame itself."""
        link = self.pages.field(pfn, "compound_head")
        if not link & 1:
            return pfn
        base = self.pages.number("SYMBOL(vmemmap)")
        return (link - 1 - base) // self.pages.page_struct

    def order_of(self, head: int) -> int:
        """Returns the order of a compound page, 0 if the head's value is invalid."""
        if not self.pages.field(head, "flags") & self.head_mask:
            return 0
        order = self.pages.field(head + 1, "flags") & 0xFF
        return order if order < 64 and head % (1 << order) == 0 else 0

    def reason(self, pfn: int, free: int) -> Reason:
        """Returns the first rule that holds for a page frame."""
        if not self.pages.exists(pfn):
            return NO_STRUCT_PAGE
        if free >> pfn & 1:
            return Reason("free", FREE, TYPED)
        head = self.head_of(pfn)
        if head != pfn and pfn >= head + (1 << self.order_of(head)):
            return Reason("tail of no compound page", 0, FLAGS)
        reason = self._by_head(head)
        if head != pfn and (reason.levels or reason.always):
            return Reason(f"tail, head is {reason.what}", reason.levels, ORDER, reason.always)
        return reason

    def _by_head(self, pfn: int) -> Reason:
        flags = self.pages.field(pfn, "flags")
        kind = self._type(pfn)
        if kind == self.types["slab"]:
            return Reason("slab", 0, SLAB)
        if flags & self.flag["hwpoison"]:
            return Reason("poisoned", 0, FLAGS, always=True)
        if kind == self.types["hugetlb"]:
            return Reason("hugetlb", USER, HUGETLB)
        anonymous = self.pages.field(pfn, "mapping") & PAGE_MAPPING_ANON
        swap = self.flag["swapbacked"] | self.flag["swapcache"]
        if not anonymous and (flags & self.flag["lru"] or flags & swap == swap):
            if flags & self.flag["private"]:
                return Reason("page cache with private data", CACHE_PRIVATE, FLAGS)
            return Reason("page cache", CACHE | CACHE_PRIVATE, FLAGS)
        if anonymous:
            return Reason("anonymous", USER, FLAGS)
        if kind == self.types["offline"]:
            return Reason("offline", 0, TYPED, always=True)
        return Reason("kernel's own", 0, FLAGS)


class Explainer:
    """Explains page frames of one source; reads its struct pages once."""

    def __init__(self, core: str | Path) -> None:
        self.pages = StructPages(core)
        self.rules = Rules(self.pages)
        self._free: dict[int, int] = {}
        self._reasons: dict[int, Reason] = {}

    def reasons(self, pfns: int, limit: int) -> dict[int, Reason]:
        """Returns the reason of every page frame of a set below `limit`."""
        if limit not in self._free:
            self._free[limit] = self.rules.free_pages(limit)
        free = self._free[limit]
        for pfn in bits.members(pfns):
            if pfn not in self._reasons:
                self._reasons[pfn] = self.rules.reason(pfn, free)
        return {pfn: self._reasons[pfn] for pfn in bits.members(pfns)}

    def expected(self, ram: int, level: int, limit: int) -> int:
        """Returns the page frames that a dump of this level must keep, by the rules alone."""
        kept = 0
        for pfn, reason in self.reasons(ram, limit).items():
            if not reason.excluded(level):
                kept |= 1 << pfn
        return kept

    def judge(self, ours: int, theirs: int, level: int, limit: int) -> Verdict:
        """Judges all differences: the rules must agree with `ours` in each.

        Zero pages keep their bit, so level bit 1 has no effect.
        """
        verdict = Verdict(f"differences at level {level}")
        counts: Counter[tuple[str, str, str]] = Counter()
        for pfn, reason in self.reasons(ours ^ theirs, limit).items():
            kept = bool(ours >> pfn & 1)
            right = not reason.excluded(level)
            if kept == right and reason is not NO_STRUCT_PAGE:
                side = "correctly kept" if kept else "correctly excluded"
                counts[side, reason.what, reason.citation] += 1
            else:
                side = "kept" if kept else "excluded"
                verdict.differ(
                    f"pfn {pfn:#x} (address {pfn << 12:#x}): {side} at level {level}, "
                    f"but it is: {reason.what} ({reason.citation})"
                )
        for (side, what, citation), number in sorted(counts.items()):
            verdict.count(f"{side}: {what}", number)
            verdict.note(f"{number} {side}: {what} [{citation}]")
        if not ours ^ theirs:
            verdict.count("bitmaps without a difference")
        return verdict


def read_pages(path: str, limit: int | None = None) -> tuple[int, int]:
    """Returns a dump's kept page frames and their limit; accepts raw bitmaps too."""
    if is_kdump(path):
        dump = Kdump(path)
        return dump.dumped, dump.max_mapnr
    raw = Path(path).read_bytes()
    limit = limit or 8 * len(raw)
    return bits.from_bitmap(raw, limit), limit


def main() -> int:
    peers_venv.run_inside()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", help="the core that was dumped, unfiltered")
    parser.add_argument("ours", help="the dump (or raw bitmap) that is expected to be correct")
    parser.add_argument("theirs", help="the dump (or raw bitmap) to compare with")
    parser.add_argument("--level", type=int, required=True)
    arguments = parser.parse_args()
    ours, limit = read_pages(arguments.ours)
    theirs, _ = read_pages(arguments.theirs, limit)
    try:
        explainer = Explainer(arguments.source)
    except CannotJudge as error:
        return error.finish()
    return explainer.judge(ours, theirs, arguments.level, limit).finish()


if __name__ == "__main__":
    sys.exit(main())
