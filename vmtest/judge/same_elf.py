#!/usr/bin/env python3
"""Judges whether two ELF dumps contain the same page frames with the same bytes.

A page frame is present if p_filesz covers it; one that only p_memsz covers was excluded. A dumper may write short runs
of unwanted pages with their data, because a separate segment would cost more: makedumpfile does so below 256 pages. The
present pages are therefore judged in one of two ways: equal in A and B; or, with `--kept`, correct according to the
bitmap of a kdump-compressed file of the same level, which permits either treatment of short runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import bits
from elfcore import ElfCore, Malformed
from kdump_layout import Kdump
from same_bitmap import compare_sets, expect_none
from verdict import Verdict

LONGEST_COMPARE = 1024
INCOMPLETE = 1
SHORT_RUN = 256
# The note in which bigiron records the dump level; its source has none, or another level.
LEVEL_NOTE = ("BIGIRON", 0x42494702)


def other_notes(core: ElfCore) -> set[tuple[str, int, bytes]]:
    """Returns all notes except that of the dump level."""
    notes = {(note.name, note.kind, bytes(note.data)) for note in core.notes()}
    return {note for note in notes if note[:2] != LEVEL_NOTE}


def recorded_levels(core: ElfCore) -> list[int]:
    """Returns the dump levels that the core's notes record."""
    notes = [note for note in core.notes() if (note.name, note.kind) == LEVEL_NOTE]
    return [int.from_bytes(note.data[:4], "little") for note in notes]


def compare_bytes(name: str, a: ElfCore, b: ElfCore, verdict: Verdict) -> None:
    """Compares the bytes of every page frame that is present in both."""
    size = a.page_size
    for start, end in bits.runs(a.present() & b.present(), LONGEST_COMPARE):
        ours = a.read(start * size, (end - start) * size)
        theirs = b.read(start * size, (end - start) * size)
        if ours == theirs:
            verdict.count(f"pages equal to {name}", end - start)
            continue
        for pfn in range(start, end):
            ours = bytes(a.read(pfn * size, size))
            theirs = bytes(b.read(pfn * size, size))
            if ours == theirs:
                verdict.count(f"pages equal to {name}")
                continue
            at = next(i for i, (x, y) in enumerate(zip(ours, theirs)) if x != y)
            verdict.differ(
                f"pfn {pfn:#x} (address {pfn * size:#x}) + {at:#x}: "
                f"{a.path.name} has {ours[at]:#04x}, {name} {theirs[at]:#04x}"
            )


def compare_headers(a: ElfCore, b: ElfCore, verdict: Verdict) -> None:
    """Compares machine, completeness, notes, and the extent of memory."""
    verdict.require(
        a.machine == b.machine, f"e_machine is {a.machine} and {b.machine}"
    )
    for core in (a, b):
        verdict.require(
            not core.flags & INCOMPLETE, f"{core.path.name} is marked as incomplete"
        )
    ours, theirs = other_notes(a), other_notes(b)
    verdict.count("notes", len(ours))
    for name, kind, data in ours ^ theirs:
        side = a if (name, kind, data) in ours else b
        verdict.differ(
            f"only in {side.path.name}: note {name} {kind:#x}, {len(data)} bytes"
        )


def zero_pages(core: ElfCore, pages: int) -> int:
    """Returns the page frames that contain only zeros."""
    size = core.page_size
    zero = bytes(size)
    found = 0
    for pfn in bits.members(pages):
        if core.read(pfn * size, size) == zero:
            found |= 1 << pfn
    return found


def judge_selection(
    elf: str | Path, kept: str | Path, source: str | Path
) -> Verdict:
    """Judges that pages kept by the level are present, and that long runs of unwanted pages are not.

    Zero pages are excluded only at a level with bit 1, as makedumpfile -E does. Memory beyond the kdump file's
    max_mapnr has no struct page to judge it by, so a dumper may keep or drop it.
    """
    verdict = Verdict(f"pages in ELF {Path(elf).name}")
    try:
        dump, bitmap, original = ElfCore(elf), Kdump(kept), ElfCore(source)
    except Malformed as error:
        verdict.differ(str(error))
        return verdict
    for level in recorded_levels(dump):
        verdict.require(
            level == bitmap.dump_level,
            f"the note records level {level}, the kdump file {bitmap.dump_level}",
        )
    excludes_zero = bitmap.dump_level & 1
    zero = zero_pages(original, bitmap.dumped) if excludes_zero else 0
    needed = bitmap.dumped & ~zero
    verdict.count("kept pages that are not zero", needed.bit_count())
    verdict.count("kept zero pages", zero.bit_count())
    expect_none("kept, but not present", needed & ~dump.present(), verdict)
    expect_none("kept, but in no segment", bitmap.dumped & ~dump.memory(), verdict)
    for start, end in bits.runs(bitmap.ram & ~needed):
        run = bits.span(start, end)
        if end - start >= SHORT_RUN:
            verdict.count("pages in long unwanted runs", end - start)
            expect_none("unwanted, but present", dump.present() & run, verdict)
    return verdict


def judge(
    a: str | Path, b: str | Path, source: str | Path | None, kept: str | Path | None
) -> Verdict:
    """Compares A with B, and both with the source if there is one."""
    verdict = Verdict(f"ELF {Path(a).name} and {Path(b).name}")
    try:
        ours, theirs = ElfCore(a), ElfCore(b)
        compare_headers(ours, theirs, verdict)
        if not kept:
            compare_sets("present", ours.present(), theirs.present(), verdict)
        compare_bytes("B", ours, theirs, verdict)
        if source:
            original = ElfCore(source)
            for dump in (ours, theirs):
                compare_bytes("the source", dump, original, verdict)
                strange = dump.memory() & ~original.memory()
                expect_none("memory the source lacks", strange, verdict)
    except Malformed as error:
        verdict.differ(str(error))
    if kept and source:
        verdict.merge(judge_selection(a, kept, source))
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("a", help="an ELF dump")
    parser.add_argument("b", help="another, at the same level")
    parser.add_argument("--source", help="the ELF core from which both were made")
    parser.add_argument(
        "--kept", help="a kdump-compressed file of the level (needs --source)"
    )
    arguments = parser.parse_args()
    if arguments.kept and not arguments.source:
        parser.error("--kept needs --source")
    return judge(arguments.a, arguments.b, arguments.source, arguments.kept).finish()


if __name__ == "__main__":
    sys.exit(main())
