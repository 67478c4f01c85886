"""Ways to damage a dump. The judges must detect each of them."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable

import bits
from kdump_layout import DESCRIPTOR_SIZE, Kdump

Edit = Callable[[mmap.mmap, Kdump], None]


def poke(at: int, code: str, value: int) -> Edit:
    """Overwrites one field at a file offset."""
    return lambda file, dump: struct.pack_into("<" + code, file, at, value)


def poke_sub(at: int, code: str, value: int) -> Edit:
    """Overwrites one field of the sub-header."""
    return lambda file, dump: struct.pack_into("<" + code, file, dump.block_size + at, value)


def find(dump: Kdump, raw: bool) -> int:
    """Returns a descriptor of this kind that no other page shares, in the middle of the dump."""
    targets = [entry.offset for entry in dump.descriptors]
    return next(
        index
        for index in range(len(targets) // 3, len(targets))
        if (dump.descriptors[index].flags == 0) == raw and targets.count(targets[index]) == 1
    )


def poke_descriptor(at: int, code: str, value: int) -> Edit:
    """Overwrites one field of a compressed page's descriptor."""

    def edit(file: mmap.mmap, dump: Kdump) -> None:
        where = dump.descriptors_at + find(dump, False) * DESCRIPTOR_SIZE
        struct.pack_into("<" + code, file, where + at, value)

    return edit


FIRST_BYTES = frozenset(range(1, 16)) | {0x78}
"""First byte of LZO data that starts with literals, and of zlib data."""


def flip_data(raw: bool) -> Edit:
    """Flips one bit of a page's data: in the middle of a raw page; in a compressed page, where the flip changes the
    page.

    A match of LZO may copy the same bytes from elsewhere, so that a flip there changes nothing. Data that starts with 1
    to 15 starts with at least four literals; zlib has a checksum.
    """

    def edit(file: mmap.mmap, dump: Kdump) -> None:
        if raw:
            entry = dump.descriptors[find(dump, True)]
            file[entry.offset + entry.size // 2] ^= 0x10
            return
        start = find(dump, False)
        entry = next(entry for entry in dump.descriptors[start:] if entry.flags and file[entry.offset] in FIRST_BYTES)
        file[entry.offset + 2] ^= 0x10

    return edit


def flip_first_page(file: mmap.mmap, dump: Kdump) -> None:
    """Flips a bit of the first raw page that is the first of its run."""
    starts = {start for start, _ in bits.runs(dump.dumped)}
    for pfn, entry in zip(bits.members(dump.dumped), dump.descriptors):
        if pfn in starts and entry.flags == 0:
            file[entry.offset + 100] ^= 1
            return


def swap_pages(file: mmap.mmap, dump: Kdump) -> None:
    """Exchanges the descriptors of two pages of different content."""
    first = dump.descriptors_at + find(dump, False) * DESCRIPTOR_SIZE
    second = first + DESCRIPTOR_SIZE
    a, b = file[first:second], file[second : second + DESCRIPTOR_SIZE]
    file[first:second], file[second : second + DESCRIPTOR_SIZE] = b, a


def flip_bit(bitmap: int, pfn: Callable[[Kdump], int]) -> Edit:
    """Flips one page frame's bit in the first or the second bitmap."""

    def edit(file: mmap.mmap, dump: Kdump) -> None:
        at = dump.bitmaps_at + bitmap * dump.bitmap_blocks * dump.block_size // 2
        number = pfn(dump)
        file[at + number // 8] ^= 1 << number % 8

    return edit


def first_dumped(dump: Kdump) -> int:
    return next(bits.members(dump.dumped))


def first_excluded(dump: Kdump) -> int:
    return next(bits.members(dump.ram & ~dump.dumped))


def not_ram(dump: Kdump) -> int:
    return next(bits.members(bits.span(0, dump.max_mapnr) & ~dump.ram))


def replace(old: bytes, new: bytes) -> Edit:
    """Replaces every occurrence of a text, in a dump of raw pages."""

    def edit(file: mmap.mmap, dump: Kdump) -> None:
        at = file.find(old)
        while at >= 0:
            file[at : at + len(old)] = new
            at = file.find(old, at + 1)

    return edit


def cut(file: mmap.mmap, dump: Kdump) -> None:
    file.resize(dump.file_size - dump.file_size // 4)


STRUCTURAL: dict[str, Edit] = {
    "signature": poke(0, "B", ord("k")),
    "header_version 5": poke(8, "i", 5),
    "unknown status bit": poke(424, "I", 0x100),
    "another codec in status": poke(424, "I", 0x20),
    "two codecs in status": poke(424, "I", 3),
    "incomplete": poke(424, "I", 10),
    "block_size 0": poke(428, "i", 0),
    "block_size 8192": poke(428, "i", 8192),
    "sub_hdr_size 1": poke(432, "i", 1),
    "bitmap_blocks odd": poke(436, "I", 5),
    "max_mapnr": poke(440, "I", 17),
    "nr_cpus 0": poke(460, "i", 0),
    "machine empty": poke(12 + 4 * 65, "B", 0),
    "phys_base": poke_sub(0, "Q", 4096),
    "dump_level 32": poke_sub(8, "i", 32),
    "split neither 0 nor 1": poke_sub(12, "i", 7),
    "VMCOREINFO elsewhere": poke_sub(32, "Q", 4096 + 104),
    "VMCOREINFO shorter": poke_sub(40, "Q", 100),
    "notes shorter": poke_sub(56, "Q", 1000),
    "notes past the sub-header": poke_sub(48, "Q", 1 << 40),
    "max_mapnr_64 larger": poke_sub(96, "Q", 1 << 20),
    "bit past RAM": flip_bit(1, not_ram),
    "bit without a descriptor": flip_bit(1, first_excluded),
    "offset past the end": poke_descriptor(0, "Q", 1 << 50),
    "offset in the headers": poke_descriptor(0, "Q", 64),
    "offset 0": poke_descriptor(0, "Q", 0),
    "size over a page": poke_descriptor(8, "I", 5000),
    "size 0": poke_descriptor(8, "I", 0),
    "compressed page marked raw": poke_descriptor(12, "I", 0),
    "flags of another codec": poke_descriptor(12, "I", 4),
    "file cut": cut,
}

PAGES: dict[str, Edit] = {
    "bit flipped in a raw page": flip_data(True),
    "bit flipped in a compressed page": flip_data(False),
    "two pages exchanged": swap_pages,
    "bit dropped, descriptors moved by one": flip_bit(1, first_dumped),
}

BITMAPS: dict[str, Edit] = {
    "one page fewer": flip_bit(1, first_dumped),
    "one page more": flip_bit(1, first_excluded),
    "RAM less": flip_bit(0, first_dumped),
    "RAM more": flip_bit(0, not_ram),
}
