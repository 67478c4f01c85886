#!/usr/bin/env python3
"""Copies an ELF core in a form that makedumpfile can open.

makedumpfile reads the program headers right after the ELF header, regardless of e_phoff; QEMU 7.2 writes section
headers there. The copy has the program headers where makedumpfile reads them, no section headers, and the same segments
with their data moved by whole blocks. Nothing else is changed. p_vaddr is kept too: makedumpfile walks the page tables
if it cannot use it.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys

from elfcore import PT_LOAD, PT_NOTE, ElfCore

ELF_HEADER = 64
PROGRAM_HEADER = 56
BLOCK = 4096


def needs_mending(core: ElfCore) -> bool:
    """Returns true if makedumpfile would not find the program headers."""
    return core.program_header_offset != ELF_HEADER


def mend(source: str, target: str) -> None:
    """Writes the equivalent file; holes of the source stay holes."""
    core = ElfCore(source)
    headers = [h for h in core.raw_headers if h[0] in (PT_LOAD, PT_NOTE)]
    room = ELF_HEADER + PROGRAM_HEADER * len(headers)
    shift = -(-room // BLOCK) * BLOCK
    elf = bytearray(core.map[:ELF_HEADER])
    struct.pack_into("<QQ", elf, 32, ELF_HEADER, 0)
    struct.pack_into("<6H", elf, 52, ELF_HEADER, PROGRAM_HEADER, len(headers), 0, 0, 0)
    with open(source, "rb") as data, open(target, "wb") as copy:
        copy.write(elf)
        for kind, flags, offset, *rest in headers:
            copy.write(struct.pack("<IIQQQQQQ", kind, flags, offset + shift, *rest))
        size = os.fstat(data.fileno()).st_size
        copy_sparse(data.fileno(), copy.fileno(), size, shift)


def copy_sparse(data: int, copy: int, size: int, shift: int) -> None:
    """Copies the parts of a file that are not holes to offsets higher by `shift` bytes."""
    os.truncate(copy, size + shift)
    at = 0
    while at < size:
        try:
            at = os.lseek(data, at, os.SEEK_DATA)
        except OSError:
            return
        end = os.lseek(data, at, os.SEEK_HOLE)
        while at < end:
            piece = os.pread(data, min(end - at, 1 << 20), at)
            os.pwrite(copy, piece, at + shift)
            at += len(piece)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source")
    parser.add_argument("target")
    arguments = parser.parse_args()
    mend(arguments.source, arguments.target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
