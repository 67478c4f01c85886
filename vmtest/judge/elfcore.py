"""A small reader of ELF cores, written independently of the project's own.

It reads the program headers at any e_phoff (QEMU puts section headers first),
and takes their number from section 0 when e_phnum is 0xffff, so a source can be
used without changes.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bits

PT_LOAD = 1
PT_NOTE = 4
PN_XNUM = 0xFFFF
EM_PPC64 = 21
# EI_DATA, and struct's character for it.
ORDERS = {1: "<", 2: ">"}


class Malformed(Exception):
    """A file that violates its own format."""


@dataclass(frozen=True)
class Note:
    name: str
    kind: int
    data: bytes


@dataclass(frozen=True)
class Segment:
    """One PT_LOAD; `memsz` beyond `filesz` is memory that the file excludes."""

    offset: int
    vaddr: int
    paddr: int
    filesz: int
    memsz: int


def parse_notes(raw: bytes, order: str = "<") -> Iterator[Note]:
    """Parses ELF notes strictly: every header and body must fit. `order` is that of struct."""
    at = 0
    while at < len(raw):
        if at + 12 > len(raw):
            raise Malformed(f"note header cut off at byte {at} of {len(raw)}")
        name_size, data_size, kind = struct.unpack_from(f"{order}III", raw, at)
        name_at = at + 12
        data_at = name_at + (name_size + 3 & ~3)
        end = data_at + data_size
        if end > len(raw):
            raise Malformed(f"note at byte {at} runs to {end}, past {len(raw)}")
        name = raw[name_at : name_at + name_size].rstrip(b"\0").decode("latin-1")
        yield Note(name, kind, raw[data_at:end])
        at = end + 3 & ~3


def parse_vmcoreinfo(text: bytes) -> dict[str, str]:
    """Returns VMCOREINFO's lines as keys and values."""
    lines = text.rstrip(b"\0").decode("latin-1").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


class ElfCore:
    """A 64-bit ELF core of either byte order, mapped and never copied."""

    def __init__(self, path: str | Path, page_size: int = 4096) -> None:
        self.path = Path(path)
        self.page_size = page_size
        with open(path, "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.view = memoryview(self.map)
        if self.map[:5] != b"\x7fELF\x02" or self.map[5] not in ORDERS:
            raise Malformed(f"{path}: not a 64-bit ELF file")
        self.order = ORDERS[self.map[5]]
        self.machine, = self._fields("H", 18)
        self.program_header_offset, = self._fields("Q", 32)
        self.flags, = self._fields("I", 48)
        self.raw_headers = list(self._program_headers())
        self.segments = [
            Segment(offset, vaddr, paddr, filesz, memsz)
            for kind, _, offset, vaddr, paddr, filesz, memsz, _ in self.raw_headers
            if kind == PT_LOAD
        ]
        for segment in self.segments:
            if segment.offset + segment.filesz > len(self.map):
                raise Malformed(
                    f"{path}: segment at {segment.paddr:#x} ends past the file"
                )

    def _fields(self, layout: str, at: int) -> tuple[int, ...]:
        """Returns the fields of a header, in the file's byte order."""
        return struct.unpack_from(self.order + layout, self.map, at)

    def _program_headers(self) -> Iterator[tuple[int, ...]]:
        number, = self._fields("H", 56)
        if number == PN_XNUM:
            section_headers, = self._fields("Q", 40)
            number, = self._fields("I", section_headers + 44)
        for index in range(number):
            yield self._fields("IIQQQQQQ", self.program_header_offset + 56 * index)

    def notes(self) -> list[Note]:
        """Returns the notes of all PT_NOTE segments."""
        return [
            note
            for kind, _, offset, _, _, size, _, _ in self.raw_headers
            if kind == PT_NOTE
            for note in parse_notes(self.map[offset : offset + size], self.order)
        ]

    def vmcoreinfo(self) -> bytes:
        """Returns the text of the VMCOREINFO note, empty if there is none."""
        return next((n.data for n in self.notes() if n.name == "VMCOREINFO"), b"")

    def memory(self) -> int:
        """Returns the page frames that any segment covers, in the file or not."""
        return self._pages(lambda segment: segment.memsz)

    def present(self) -> int:
        """Returns the page frames whose bytes are in the file."""
        return self._pages(lambda segment: segment.filesz)

    def _pages(self, size_of) -> int:
        pages = 0
        for segment in self.segments:
            size = size_of(segment)
            if size:
                end = -(-(segment.paddr + size) // self.page_size)
                pages |= bits.span(segment.paddr // self.page_size, end)
        return pages

    def read(self, paddr: int, size: int) -> memoryview | bytes:
        """Reads physical memory; bytes that no segment has in the file are zeros."""
        for segment in self.segments:
            inside = paddr - segment.paddr
            if 0 <= inside and inside + size <= segment.filesz:
                start = segment.offset + inside
                return self.view[start : start + size]
        pieces = bytearray(size)
        for segment in self.segments:
            start = max(paddr, segment.paddr)
            end = min(paddr + size, segment.paddr + segment.filesz)
            if start < end:
                at = segment.offset + start - segment.paddr
                pieces[start - paddr : end - paddr] = self.view[at : at + end - start]
        return bytes(pieces)
