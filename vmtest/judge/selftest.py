#!/usr/bin/env python3
"""Proves that the judges see what they are there to see.

Every judge must pass makedumpfile's own dump of a vmcore, and must notice each
way of damaging a copy of it. With --vmlinux, crash and drgn are tried as well.
"""

from __future__ import annotations

import argparse
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import bits
import crash_text
import drgn_tasks
import explain
import kdump_layout
import libkdumpfile_read
import mend_elf
import peers_venv
import same_bitmap
import same_dmesg
import same_elf
import same_pages
from elfcore import PT_LOAD, PT_NOTE, ElfCore
from kdump_layout import DESCRIPTOR, Kdump
from tools import Makedumpfile
from verdict import CannotJudge, Verdict

Edit = Callable[[mmap.mmap, Kdump], None]
Case = tuple[str, Callable[[], bool], bool]


def poke(at: int, code: str, value: int) -> Edit:
    """Overwrites one field at a file offset."""
    return lambda file, dump: struct.pack_into("<" + code, file, at, value)


def poke_sub(at: int, code: str, value: int) -> Edit:
    """Overwrites one field of the sub-header."""
    return lambda file, dump: struct.pack_into("<" + code, file, dump.block_size + at, value)


def find(dump: Kdump, raw: bool) -> int:
    """A descriptor of the wanted kind that no other page shares, well inside."""
    targets = [entry.offset for entry in dump.descriptors]
    return next(
        index
        for index in range(len(targets) // 3, len(targets))
        if (dump.descriptors[index].flags == 0) == raw and targets.count(targets[index]) == 1
    )


def poke_descriptor(at: int, code: str, value: int) -> Edit:
    """Overwrites one field of a compressed page's descriptor."""

    def edit(file: mmap.mmap, dump: Kdump) -> None:
        where = dump.descriptors_at + find(dump, False) * DESCRIPTOR.size
        struct.pack_into("<" + code, file, where + at, value)

    return edit


FIRST_BYTES = frozenset(range(1, 16)) | {0x78}
"""Of a page in LZO that begins with literals, and of one in zlib."""


def flip_data(raw: bool) -> Edit:
    """Flips one bit of a page's data: a raw one's in the middle, a compressed one's where that changes the page.

    A match of LZO may copy the same bytes from elsewhere and lose nothing by the flip. What begins with 1 to 15 begins
    with four literals at least; zlib has a checksum.
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
    first = dump.descriptors_at + find(dump, False) * DESCRIPTOR.size
    second = first + DESCRIPTOR.size
    a, b = file[first:second], file[second : second + DESCRIPTOR.size]
    file[first:second], file[second : second + DESCRIPTOR.size] = b, a


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
    "split neither yes nor no": poke_sub(12, "i", 7),
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
    "compressed called raw": poke_descriptor(12, "I", 0),
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
    "a page less": flip_bit(1, first_dumped),
    "a page more": flip_bit(1, first_excluded),
    "RAM less": flip_bit(0, first_dumped),
    "RAM more": flip_bit(0, not_ram),
}


class Bench:
    """Sound dumps of one vmcore, and damaged copies of them."""

    def __init__(self, vmcore: Path, directory: Path, makedumpfile: Makedumpfile) -> None:
        self.vmcore = vmcore
        self.directory = directory
        self.makedumpfile = makedumpfile
        openable = vmcore
        if mend_elf.needs_mending(ElfCore(vmcore)):
            openable = directory / "mended"
            mend_elf.mend(str(vmcore), str(openable))
        self.openable = openable
        self.lzo = makedumpfile.dump(openable, directory / "lzo", 31)
        self.zlib = makedumpfile.dump(openable, directory / "zlib", 31, "zlib")
        self.raw = makedumpfile.dump(openable, directory / "raw", 31, "none")
        self.elf = makedumpfile.elf(openable, directory / "elf", 31)

    def damaged(self, dump: Path, edit: Edit) -> Path:
        """A copy with one thing wrong."""
        copy = self.directory / "damaged"
        shutil.copyfile(dump, copy)
        with open(copy, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            edit(mapped, Kdump(dump))
        return copy

    def damaged_elf(self, edit: Callable[[bytearray, ElfCore], None]) -> Path:
        """The same for the ELF dump."""
        copy = self.directory / "damaged"
        content = bytearray(self.elf.read_bytes())
        edit(content, ElfCore(self.elf))
        copy.write_bytes(content)
        return copy


def kdump_cases(bench: Bench) -> Iterator[Case]:
    """Judges of kdump-compressed files."""

    def layout(edit: Edit) -> bool:
        return kdump_layout.judge(bench.damaged(bench.lzo, edit)).passed

    def pages(edit: Edit, dump: Path) -> bool:
        return same_pages.judge(bench.vmcore, bench.damaged(dump, edit)).passed

    def bitmap(edit: Edit) -> bool:
        return same_bitmap.judge(bench.damaged(bench.lzo, edit), bench.zlib).passed

    for dump in (bench.lzo, bench.zlib, bench.raw):
        yield f"layout, {dump.name}", lambda d=dump: kdump_layout.judge(d).passed, True
        yield f"pages, {dump.name}", lambda d=dump: same_pages.judge(bench.vmcore, d).passed, True
    yield "bitmaps, lzo and zlib", lambda: same_bitmap.judge(bench.lzo, bench.zlib).passed, True
    for name, edit in STRUCTURAL.items():
        yield f"layout: {name}", lambda e=edit: layout(e), False
    for name, edit in BITMAPS.items():
        yield f"bitmaps: {name}", lambda e=edit: bitmap(e), False
    for name, edit in PAGES.items():
        for dump in (bench.lzo, bench.zlib):
            yield f"pages, {dump.name}: {name}", lambda e=edit, d=dump: pages(e, d), False


def raw_bitmap_cases(bench: Bench) -> Iterator[Case]:
    """A raw bitmap as the other side."""
    raw = bench.directory / "level-31.bitmap"

    def judge(edit: Edit) -> bool:
        other = Kdump(bench.damaged(bench.lzo, edit))
        raw.write_bytes(other.dumped.to_bytes(other.max_mapnr // 8 + 1, "little"))
        return same_bitmap.judge(bench.lzo, raw).passed

    yield "raw bitmap", lambda: judge(lambda file, dump: None), True
    yield "raw bitmap: a page less", lambda: judge(flip_bit(1, first_dumped)), False


def elf_cases(bench: Bench) -> Iterator[Case]:
    """The judge of ELF dumps, with and without a bitmap to go by."""

    def judge(edit, kept: Path | None = None) -> bool:
        damaged = bench.damaged_elf(edit)
        return same_elf.judge(damaged, bench.elf, bench.vmcore, kept).passed

    def header(core: ElfCore, kind: int, index: int) -> int:
        """The file offset of the index-th program header of a kind."""
        places = [n for n, fields in enumerate(core.raw_headers) if fields[0] == kind]
        return core.program_header_offset + 56 * places[index]

    def nothing(file: bytearray, core: ElfCore) -> None:
        pass

    def flip(file: bytearray, core: ElfCore) -> None:
        segment = core.segments[1]
        file[segment.offset + segment.filesz // 2] ^= 4

    def shorter(file: bytearray, core: ElfCore) -> None:
        # One at the start of memory: the kernel's text is in two of /proc/vmcore.
        loads = [fields for fields in core.raw_headers if fields[0] == PT_LOAD]
        lowest = min(
            (n for n, fields in enumerate(loads) if fields[5]), key=lambda n: loads[n][4]
        )
        at = header(core, PT_LOAD, lowest) + 32
        size, = struct.unpack_from("<Q", file, at)
        struct.pack_into("<Q", file, at, size - 4096)

    def moved(file: bytearray, core: ElfCore) -> None:
        at = header(core, PT_LOAD, 1) + 24
        address, = struct.unpack_from("<Q", file, at)
        struct.pack_into("<Q", file, at, address + 4096)

    def note(file: bytearray, core: ElfCore) -> None:
        offset, = struct.unpack_from("<Q", file, header(core, PT_NOTE, 0) + 8)
        file[offset + 200] ^= 1

    def incomplete(file: bytearray, core: ElfCore) -> None:
        file[48] |= 1

    edits = {
        "a bit flipped": flip,
        "a page less": shorter,
        "a segment moved": moved,
        "a note changed": note,
        "incomplete": incomplete,
    }
    yield "ELF", lambda: judge(nothing), True
    yield "ELF by bitmap", lambda: judge(nothing, bench.lzo), True
    for name, edit in edits.items():
        yield f"ELF: {name}", lambda e=edit: judge(e), False
        yield f"ELF by bitmap: {name}", lambda e=edit: judge(e, bench.lzo), False
    yield "ELF by bitmap: unfiltered", lambda: same_elf.judge_selection(
        bench.openable, bench.lzo, bench.vmcore
    ).passed, False


def mended_case(bench: Bench) -> Case:
    """A mended file holds what the vmcore holds."""
    return "mended ELF", lambda: same_elf.judge(
        bench.openable, bench.vmcore, bench.vmcore, None
    ).passed, True


def dmesg_cases(bench: Bench) -> Iterator[Case]:
    """The comparison of two logs, with a log of makedumpfile's as both sides."""
    log = same_dmesg.by_makedumpfile(bench.makedumpfile, bench.openable, bench.directory)

    def judge(ours: bytes, theirs: bytes) -> bool:
        verdict = Verdict("dmesg")
        same_dmesg.equal("log", ours, theirs, verdict)
        return verdict.passed

    yield "dmesg", lambda: judge(log, log), True
    yield "dmesg: a letter", lambda: judge(log.replace(b"Linux", b"Linus", 1), log), False
    yield "dmesg: cut", lambda: judge(log[: len(log) // 2], log), False
    yield "dmesg: no line feed at the end", lambda: judge(log[:-1], log), False
    yield "dmesg: nothing", lambda: judge(b"", b""), False


def explain_cases(bench: Bench) -> Iterator[Case]:
    """The rules side with themselves, and with no single change."""
    try:
        explainer = explain.Explainer(bench.vmcore)
    except CannotJudge as reason:
        print(f"SKIP explain: {reason}")
        return
    dump = Kdump(bench.lzo)
    right = explainer.expected(dump.ram, 31, dump.max_mapnr)

    def judge(ours: int) -> bool:
        return explainer.judge(ours, dump.dumped, 31, dump.max_mapnr).passed

    yield "explain: the rules' own choice", lambda: judge(right), True
    stays = next(bits.members(right & dump.dumped))
    goes = next(bits.members(dump.ram & ~right & ~dump.dumped))
    yield "explain: a page less", lambda: judge(right & ~(1 << stays)), False
    yield "explain: a page more", lambda: judge(right | 1 << goes), False


def libkdumpfile_cases(bench: Bench) -> Iterator[Case]:
    """Debian's libkdumpfile, in its own Python."""
    script = libkdumpfile_read.__file__

    def judge(edit: Edit | None) -> bool:
        dump = bench.damaged(bench.raw, edit) if edit else bench.raw
        ended = subprocess.run(
            [sys.executable, script, bench.vmcore, dump], stdout=subprocess.DEVNULL
        )
        if ended.returncode == 3:
            raise CannotJudge("no libkdumpfile")
        return ended.returncode == 0

    yield "libkdumpfile", lambda: judge(None), True
    yield "libkdumpfile: a bit flipped", lambda: judge(flip_first_page), False
    yield "libkdumpfile: machine", lambda: judge(poke(12 + 4 * 65, "B", ord("9"))), False
    yield "libkdumpfile: VMCOREINFO", lambda: judge(
        replace(b"OSRELEASE=6.", b"OSRELEASE=9.")
    ), False


def symbol_cases(bench: Bench, vmlinux: Path) -> Iterator[Case]:
    """crash and drgn with debug symbols, on dumps whose memory says otherwise."""

    def tasks(b: Path) -> bool:
        return drgn_tasks.judge(vmlinux, bench.openable, b).passed

    def name() -> Path:
        return bench.damaged(bench.raw, replace(b"kthreadd\0", b"kthreadx\0"))

    @cache
    def answers() -> dict[str, crash_text.Answers]:
        """What crash says of three dumps, all opened at once, for that takes it long."""
        log = bench.damaged(bench.raw, replace(b"Command line:", b"Command lime:"))
        dumps = [str(dump) for dump in (bench.raw, bench.lzo, log)]
        return dict(zip(("raw", "lzo", "log"), crash_text.run(str(vmlinux), dumps, crash_text.COMMANDS)))

    def crash(b: str) -> bool:
        said = answers()
        return crash_text.compare_answers(("raw", b), said["raw"], said[b]).passed

    yield "tasks: another name", lambda: tasks(name()), False
    yield "crash", lambda: crash("lzo"), True
    yield "crash: another log", lambda: crash("log"), False


def carry_out(cases: Iterator[Case]) -> tuple[int, int]:
    """Runs the cases; a judge that raises has not judged."""
    passed = failed = 0
    for name, judge, expected in cases:
        try:
            verdict = judge()
        except CannotJudge as reason:
            print(f"SKIP {name}: {reason}", flush=True)
            continue
        if verdict == expected:
            passed += 1
            print(f"OK   {name}: {'passes' if verdict else 'noticed'}", flush=True)
        else:
            failed += 1
            print(f"FAIL {name}: {'went unnoticed' if verdict else 'does not pass'}", flush=True)
    return passed, failed


def all_cases(bench: Bench, vmlinux: Path | None) -> Iterator[Case]:
    yield mended_case(bench)
    yield from kdump_cases(bench)
    yield from raw_bitmap_cases(bench)
    yield from elf_cases(bench)
    yield from explain_cases(bench)
    yield from dmesg_cases(bench)
    yield from libkdumpfile_cases(bench)
    if vmlinux:
        yield from symbol_cases(bench, vmlinux)


def main() -> int:
    peers_venv.run_inside()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vmcore", type=Path)
    parser.add_argument("--vmlinux", type=Path, help="debug symbols of its kernel")
    options = parser.parse_args()
    roomy = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="bigiron-selftest-", dir=roomy) as directory:
        try:
            bench = Bench(options.vmcore, Path(directory), Makedumpfile())
        except CannotJudge as error:
            return error.finish()
        passed, failed = carry_out(all_cases(bench, options.vmlinux))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
