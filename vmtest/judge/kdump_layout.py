#!/usr/bin/env python3
"""Judges the structure of a kdump-compressed file, without reading its pages.

This parser is written from the description of the format and shares no code with the project's own parser, so a
misreading of the format cannot affect both.
"""

from __future__ import annotations

import argparse
import mmap
import struct
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import bits
from elfcore import Malformed, Note, parse_notes, parse_vmcoreinfo
from verdict import Verdict

SIGNATURE = b"KDUMP   "
CODECS = {1: "zlib", 2: "lzo", 4: "snappy", 0x20: "zstd"}
# Codecs that pages of one dump may combine: those of adaptive compression.
ADAPTIVE = {"lzo", "zstd"}
INCOMPLETE = 8
VMEMMAP_EXCLUDED = 0x10
MAIN_HEADER = 464
SUB_HEADER = 104
DESCRIPTOR = "QIIQ"
DESCRIPTOR_SIZE = 24
NT_PRSTATUS = 1


@dataclass(frozen=True)
class Descriptor:
    offset: int
    size: int
    flags: int
    page_flags: int

    @property
    def lost(self) -> bool:
        """True for a descriptor of all zeros, as in a truncated dump."""
        return self.offset == 0


class Kdump:
    """The unmodified fields of a kdump-compressed file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with open(path, "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.file_size = len(self.map)
        if self.map[:8] != SIGNATURE or self.file_size < MAIN_HEADER:
            raise Malformed(f"{path}: no kdump signature")
        # The headers have the byte order of the dumped machine. The version is a small number.
        self.order = "<" if self.map[8] else ">"
        self.version, = self._fields("i", 8)
        self.utsname = struct.unpack_from("65s65s65s65s65s65s", self.map, 12)
        (
            self.status,
            self.block_size,
            self.sub_header_blocks,
            self.bitmap_blocks,
            self.max_mapnr_32,
        ) = self._fields("IiiII", 424)
        self.cpus, = self._fields("i", 460)
        size = self.block_size
        if size < 4096 or size & (size - 1) or self.sub_header_blocks < 1:
            raise Malformed(
                f"{path}: block_size {size}, sub_hdr_size {self.sub_header_blocks}"
            )
        self._read_sub_header()
        if not 0 <= self.bitmap_blocks * size <= self.file_size - self.bitmaps_at:
            raise Malformed(f"{path}: the bitmaps end past the file")

    def _read_sub_header(self) -> None:
        at = self.block_size
        if at + SUB_HEADER > self.file_size:
            raise Malformed(f"{self.path}: no room for the sub-header")
        (
            self.phys_base,
            self.dump_level,
            self.split,
            _,
            _,
            self.vmcoreinfo_at,
            self.vmcoreinfo_size,
            self.notes_at,
            self.notes_size,
            self.eraseinfo_at,
            self.eraseinfo_size,
            self.start_pfn,
            self.end_pfn,
            self.max_mapnr,
        ) = self._fields("QiiQQQQQQQQQQQ", at)

    def _fields(self, layout: str, at: int) -> tuple[int, ...]:
        """Returns the fields of a header, in the file's byte order."""
        return struct.unpack_from(self.order + layout, self.map, at)

    @property
    def bitmaps_at(self) -> int:
        return (1 + self.sub_header_blocks) * self.block_size

    @property
    def descriptors_at(self) -> int:
        return self.bitmaps_at + self.bitmap_blocks * self.block_size

    def bitmap_bytes(self, index: int) -> bytes:
        """Returns the unmodified first (0) or second (1) bitmap of the file."""
        half = self.bitmap_blocks * self.block_size // 2
        start = self.bitmaps_at + index * half
        return self.map[start : start + half]

    @cached_property
    def ram(self) -> int:
        """Returns the first bitmap: page frames that are RAM."""
        return bits.from_bitmap(self.bitmap_bytes(0), self.max_mapnr)

    @cached_property
    def dumped(self) -> int:
        """Returns the second bitmap: page frames that are dumped."""
        return bits.from_bitmap(self.bitmap_bytes(1), self.max_mapnr)

    @cached_property
    def described(self) -> int:
        """Returns the page frames that have a descriptor in this file."""
        if not self.split:
            return self.dumped
        end = min(self.end_pfn, self.max_mapnr, self.bitmap_blocks * self.block_size * 4)
        return self.dumped & bits.span(self.start_pfn, end)

    @cached_property
    def descriptors(self) -> list[Descriptor]:
        """Returns one descriptor per described page frame, in page-frame order."""
        number = self.described.bit_count()
        end = self.descriptors_at + number * DESCRIPTOR_SIZE
        if end > self.file_size:
            raise Malformed(
                f"{self.path}: {number} descriptors end at {end:#x}, "
                f"past the file's {self.file_size:#x}"
            )
        table = self.map[self.descriptors_at : end]
        return [Descriptor(*fields) for fields in struct.iter_unpack(self.order + DESCRIPTOR, table)]

    @property
    def vmcoreinfo(self) -> bytes:
        return self.map[self.vmcoreinfo_at : self.vmcoreinfo_at + self.vmcoreinfo_size]

    def notes(self) -> list[Note]:
        return list(
            parse_notes(self.map[self.notes_at : self.notes_at + self.notes_size], self.order)
        )


def is_kdump(path: str | Path) -> bool:
    """Returns true if the file begins like a kdump-compressed one."""
    with open(path, "rb") as file:
        return file.read(8) == SIGNATURE


def judge(path: str | Path, allow_incomplete: bool = False) -> Verdict:
    """Checks every structural rule of one file."""
    verdict = Verdict(f"layout of {Path(path).name}")
    try:
        dump = Kdump(path)
        judge_header(dump, verdict, allow_incomplete)
        judge_sub_header(dump, verdict)
        judge_bitmaps(dump, verdict)
        judge_descriptors(dump, verdict)
    except Malformed as error:
        verdict.differ(str(error))
    return verdict


def judge_header(dump: Kdump, verdict: Verdict, allow_incomplete: bool) -> None:
    """Checks the main header, by which readers choose architecture and sizes."""
    require = verdict.require
    require(dump.version == 6, f"header_version is {dump.version}, not 6")
    for name, field in zip(
        ("sysname", "nodename", "release", "version", "machine", "domainname"),
        dump.utsname,
    ):
        require(b"\0" in field, f"utsname.{name} is not NUL-terminated")
    require(dump.utsname[0].startswith(b"Linux\0"), "utsname.sysname is not Linux")
    require(dump.utsname[4][0] != 0, "utsname.machine is empty")
    known = sum(CODECS) | INCOMPLETE | VMEMMAP_EXCLUDED
    require(dump.status & ~known == 0, f"unknown bits in status {dump.status:#x}")
    codecs = {name for bit, name in CODECS.items() if dump.status & bit}
    require(
        len(codecs) <= 1 or codecs == ADAPTIVE,
        f"status names several codecs: {sorted(codecs)}",
    )
    require(
        allow_incomplete or not dump.status & INCOMPLETE, "status says incomplete"
    )
    clamped = min(dump.max_mapnr, 0xFFFFFFFF)
    require(
        dump.max_mapnr_32 == clamped,
        f"max_mapnr {dump.max_mapnr_32} is not {clamped}, the clamped max_mapnr_64",
    )
    blocks = 2 * -(-dump.max_mapnr // (8 * dump.block_size))
    require(
        dump.bitmap_blocks == blocks,
        f"bitmap_blocks is {dump.bitmap_blocks}; {dump.max_mapnr} pages need {blocks}",
    )
    require(dump.cpus > 0, f"nr_cpus is {dump.cpus}")


def judge_sub_header(dump: Kdump, verdict: Verdict) -> None:
    """Checks the sub-header, the notes after it, and VMCOREINFO inside the notes."""
    require = verdict.require
    require(0 <= dump.dump_level <= 31, f"dump_level is {dump.dump_level}")
    require(dump.split in (0, 1), f"split is {dump.split}")
    if dump.split:
        # makedumpfile writes an empty range to parts without page frames.
        require(
            dump.start_pfn <= dump.end_pfn <= dump.max_mapnr,
            f"split covers {dump.start_pfn}..{dump.end_pfn} of {dump.max_mapnr}",
        )
    first, last = dump.block_size + SUB_HEADER, dump.bitmaps_at
    for name, at, size in (
        ("VMCOREINFO", dump.vmcoreinfo_at, dump.vmcoreinfo_size),
        ("the notes", dump.notes_at, dump.notes_size),
    ):
        require(size > 0, f"{name} is empty")
        require(
            first <= at and at + size <= last,
            f"{name} at {at:#x}+{size:#x} is outside {first:#x}..{last:#x}",
        )
    require(
        dump.eraseinfo_at + dump.eraseinfo_size <= dump.file_size,
        f"erase info ends at {dump.eraseinfo_at + dump.eraseinfo_size:#x}, past the file",
    )
    notes = dump.notes()
    verdict.count("notes", len(notes))
    cpus = sum(note.name == "CORE" and note.kind == NT_PRSTATUS for note in notes)
    # A dump of the running kernel has no registers.
    require(cpus in (0, dump.cpus), f"{cpus} NT_PRSTATUS notes, but nr_cpus {dump.cpus}")
    texts = [note.data for note in notes if note.name == "VMCOREINFO"]
    require(len(texts) == 1, f"{len(texts)} VMCOREINFO notes")
    require(dump.vmcoreinfo in texts, "offset_vmcoreinfo does not point at the note")
    info = parse_vmcoreinfo(dump.vmcoreinfo)
    require(dump.vmcoreinfo.startswith(b"OSRELEASE="), "VMCOREINFO has no OSRELEASE")
    require(
        info.get("PAGESIZE") == str(dump.block_size),
        f"VMCOREINFO's PAGESIZE {info.get('PAGESIZE')}, block_size {dump.block_size}",
    )
    release = dump.utsname[2].split(b"\0")[0].decode("latin-1")
    require(
        info.get("OSRELEASE") == release,
        f"utsname.release {release!r}, OSRELEASE {info.get('OSRELEASE')!r}",
    )
    if "NUMBER(phys_base)" in info:
        base = int(info["NUMBER(phys_base)"]) % (1 << 64)
        require(
            dump.phys_base == base,
            f"phys_base {dump.phys_base:#x}, VMCOREINFO says {base:#x}",
        )


def judge_bitmaps(dump: Kdump, verdict: Verdict) -> None:
    """Checks that only RAM is dumped, and nothing beyond max_mapnr."""
    verdict.count("RAM pages", dump.ram.bit_count())
    verdict.count("dumped pages", dump.dumped.bit_count())
    stray = dump.dumped & ~dump.ram
    if stray:
        first = next(bits.members(stray))
        verdict.differ(
            f"pfn {first:#x} is dumped but not RAM ({stray.bit_count()} such)"
        )
    for index, name in enumerate(("first", "second")):
        raw = dump.bitmap_bytes(index)
        beyond = bits.from_bitmap(raw, 8 * len(raw)) >> min(dump.max_mapnr, 8 * len(raw))
        verdict.require(not beyond, f"the {name} bitmap has bits past max_mapnr")


def judge_descriptors(dump: Kdump, verdict: Verdict) -> None:
    """Checks that every descriptor points at a whole page of data inside the file."""
    table_end = dump.descriptors_at + len(dump.descriptors) * DESCRIPTOR_SIZE
    verdict.count("descriptors", len(dump.descriptors))
    kinds: Counter[str] = Counter()
    for pfn, entry in zip(bits.members(dump.described), dump.descriptors):
        if entry.lost and dump.status & INCOMPLETE:
            kinds["lost"] += 1
            continue
        fault = descriptor_fault(entry, dump, table_end)
        if fault:
            verdict.differ(f"pfn {pfn:#x}: {fault}")
        kinds[CODECS.get(entry.flags, "raw")] += 1
    for kind, number in sorted(kinds.items()):
        verdict.count(kind, number)
    targets = sorted({(entry.offset, entry.size) for entry in dump.descriptors})
    verdict.count("data targets", len(targets))
    for (offset, size), (following, _) in zip(targets, targets[1:]):
        if offset + size > following and offset:
            verdict.differ(f"data at {offset:#x}+{size:#x} overlaps {following:#x}")


def descriptor_fault(entry: Descriptor, dump: Kdump, table_end: int) -> str | None:
    """Returns the defect of one descriptor, if any."""
    where = f"offset {entry.offset:#x}, size {entry.size:#x}"
    if entry.offset < table_end:
        return f"{where}: before the descriptors' end {table_end:#x}"
    if entry.offset + entry.size > dump.file_size:
        return f"{where}: past the file's end {dump.file_size:#x}"
    if not 0 < entry.size <= dump.block_size:
        return f"{where}: not within 1..{dump.block_size}"
    # The status names the codecs of all pages; each page has one of them, or none.
    if entry.flags and (entry.flags not in CODECS or not entry.flags & dump.status):
        return f"{where}: flags {entry.flags:#x}, but status {dump.status:#x}"
    if entry.flags == 0 and entry.size != dump.block_size:
        return f"{where}: raw, but not a whole page"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dump", nargs="+")
    parser.add_argument("--allow-incomplete", action="store_true")
    arguments = parser.parse_args()
    verdicts = [judge(path, arguments.allow_incomplete) for path in arguments.dump]
    return max(verdict.finish() for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(main())
