#!/usr/bin/env python3
"""Judges whether a dump excludes exactly those prepared pages of a guest that its level names.

The guest has listed the pages that it made on purpose, each confirmed by the kernel's own flags (guest/report.c). No
other dumper takes part.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import bits
from elfcore import Malformed
from kdump_layout import Kdump
from verdict import Verdict

CACHE = {"cache_clean", "cache_dirty", "shm", "tmpfs"}
PRIVATE = {"cache_private_clean", "cache_private_dirty"}
USER = {"hugetlb", "thp", "anon", "anon_zero", "anon_equal", "mlocked", "ksm"}
# Pages of zeros, level 1, and free ones, level 16, are not listed.
LEVELS = {2: CACHE, 4: CACHE | PRIVATE, 8: USER}
ALWAYS = {"poison"}


def read_list(path: Path) -> dict[str, int]:
    """Returns the page frames of each kind in the guest's list."""
    kinds: dict[str, int] = {}
    for line in path.read_text().splitlines():
        kind, frames = line.split()
        first, last = map(int, frames.split("-"))
        kinds[kind] = kinds.get(kind, 0) | bits.span(first, last + 1)
    return kinds


def judge(dump: str | Path, pages: Path, level: int) -> Verdict:
    """Judges a dump of a level that does not exclude pages of zeros, or excludes all kinds."""
    verdict = Verdict(f"prepared pages in {Path(dump).name} at level {level}")
    excluded = ALWAYS.union(*(kinds for bit, kinds in LEVELS.items() if level & bit))
    try:
        dumped = Kdump(dump).dumped
    except Malformed as error:
        verdict.differ(str(error))
        return verdict
    for kind, frames in read_list(pages).items():
        verdict.count("prepared pages", frames.bit_count())
        wrong = frames & dumped if kind in excluded else frames & ~dumped
        if wrong:
            found = "dumped" if kind in excluded else "missing"
            verdict.differ(f"{kind}: {wrong.bit_count()} of {frames.bit_count()} pages are {found}", wrong.bit_count())
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dump", help="a kdump-compressed file")
    parser.add_argument("pages", type=Path, help="pages.txt, which is stored with a vmcore")
    parser.add_argument("level", type=int)
    arguments = parser.parse_args()
    return judge(arguments.dump, arguments.pages, arguments.level).finish()


if __name__ == "__main__":
    sys.exit(main())
