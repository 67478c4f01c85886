"""Reads the guest's reports about its memory: from its console, and from its notes disk (guest/report.c)."""

import json
import sys
from array import array
from collections import Counter
from pathlib import Path
from typing import Any, Literal

from .errors import LabError

ByteOrder = Literal["little", "big"]

MARK = "bigiron-vmtest: "
KPAGEFLAGS_AT = 8 << 20
NOTES_SIZE = KPAGEFLAGS_AT + (32 << 20)

# include/uapi/linux/kernel-page-flags.h; from 32 on, include/linux/kernel-page-flags.h
BITS = {
    "dirty": 4,
    "lru": 5,
    "slab": 7,
    "buddy": 10,
    "anon": 12,
    "swapbacked": 14,
    "huge": 17,
    "hwpoison": 19,
    "nopage": 20,
    "thp": 22,
    "offline": 23,
    "pgtable": 26,
    "reserved": 32,
    "private": 35,
}


def console_records(console: str) -> list[dict[str, Any]]:
    """Returns the machine-readable lines, without those interrupted by kernel messages."""
    records = []
    for line in console.splitlines():
        _, mark, rest = line.partition(MARK)
        if mark and rest.lstrip().startswith("{"):
            try:
                records.append(json.loads(rest))
            except json.JSONDecodeError:
                continue
    return records


def _class_of(flags: int) -> str:
    """Returns the class of one page frame by the kernel's flags; the first match decides."""
    has = {name for name, bit in BITS.items() if flags >> bit & 1}
    for name in ("nopage", "hwpoison", "buddy", "offline", "slab", "pgtable", "huge"):
        if name in has:
            return {"huge": "hugetlb", "buddy": "free"}.get(name, name)
    if "anon" in has:
        return "thp" if "thp" in has else "anon"
    if "swapbacked" in has and "lru" in has:
        return "shmem"
    if "lru" in has:
        return "cache" + ("_private" if "private" in has else "") + ("_dirty" if "dirty" in has else "_clean")
    return "reserved" if "reserved" in has else "other"


def histogram(kpageflags: bytes, order: ByteOrder) -> dict[str, int]:
    """Returns the number of page frames of each class in the whole machine, whose byte order is `order`."""
    counts: Counter[str] = Counter()
    words = array("Q", kpageflags)
    if order != sys.byteorder:
        words.byteswap()
    for flags, pages in Counter(words).items():
        counts[_class_of(flags)] += pages
    return dict(sorted(counts.items()))


def split(disk: Path, frames: int, into: Path, order: ByteOrder) -> dict[str, int]:
    """Splits the notes disk into pages.txt and kpageflags; returns the histogram."""
    with open(disk, "rb") as file:
        text = file.read(KPAGEFLAGS_AT).rstrip(b"\0")
        kpageflags = file.read(frames * 8)
    if len(kpageflags) != frames * 8 or not text:
        raise LabError("the guest's notes disk is not complete")
    (into / "pages.txt").write_bytes(text)
    (into / "kpageflags").write_bytes(kpageflags)
    return histogram(kpageflags, order)
