#!/usr/bin/env python3
"""Judges whether two kdump-compressed files keep the same page frames.

The second file may also be a raw bitmap, least significant bit first. It is then compared with one bitmap of the first
file: the first bitmap if its name starts with `ram`, otherwise the second.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import bits
from elfcore import Malformed
from kdump_layout import Kdump, is_kdump
from verdict import Verdict


def compare_sets(name: str, a: int, b: int, verdict: Verdict) -> None:
    """Reports the runs in which two sets of page frames differ."""
    verdict.count(f"{name} pages compared", (a | b).bit_count())
    expect_none(f"{name}, only in A", a & ~b, verdict)
    expect_none(f"{name}, only in B", b & ~a, verdict)


def expect_none(name: str, pages: int, verdict: Verdict) -> None:
    """Reports the runs of a set of page frames that should be empty."""
    for start, end in bits.runs(pages):
        verdict.differ(
            f"{name}: pfn {start:#x}..{end - 1:#x} "
            f"(address {start << 12:#x}, {end - start} pages)",
            end - start,
        )


def judge(a: str | Path, b: str | Path) -> Verdict:
    """Compares both bitmaps. Pages beyond a file's max_mapnr are absent from it."""
    verdict = Verdict(f"bitmaps of {Path(a).name} and {Path(b).name}")
    try:
        dump = Kdump(a)
        if is_kdump(b):
            other = Kdump(b)
            compare_sets("RAM", dump.ram, other.ram, verdict)
            compare_sets("dumped", dump.dumped, other.dumped, verdict)
        else:
            raw = Path(b).read_bytes()
            pages = bits.from_bitmap(raw, 8 * len(raw))
            if Path(b).name.startswith("ram"):
                compare_sets("RAM", dump.ram, pages, verdict)
            else:
                compare_sets("dumped", dump.dumped, pages, verdict)
    except Malformed as error:
        verdict.differ(str(error))
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("a", help="a kdump-compressed file")
    parser.add_argument("b", help="another, or a raw bitmap")
    arguments = parser.parse_args()
    return judge(arguments.a, arguments.b).finish()


if __name__ == "__main__":
    sys.exit(main())
