#!/usr/bin/env python3
"""Proves that the judges detect the faults that they are made for.

Every judge must pass makedumpfile's own dump of a vmcore, and must detect each kind of damage to a copy of it. With
--vmlinux, crash and drgn are tested too.
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
import by_symbols
import crash_text
import drgn_tasks
import explain
import kdump_layout
import libkdumpfile_read
import mend_elf
import peers_venv
import prepared_pages
import same_bitmap
import same_dmesg
import same_elf
import same_info
import same_modules
import same_pages
import same_tasks
import same_values
import trace_cases
from damage import BITMAPS, Edit, PAGES, STRUCTURAL, first_dumped, flip_bit, flip_first_page, poke, replace
from elfcore import PT_LOAD, PT_NOTE, ElfCore
from kdump_layout import Kdump
from tools import Bigiron, Makedumpfile, ToolFailed
from verdict import CannotJudge, Verdict

Case = tuple[str, Callable[[], bool], bool]


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
        """Makes a copy with one defect."""
        copy = self.directory / "damaged"
        shutil.copyfile(dump, copy)
        with open(copy, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            edit(mapped, Kdump(dump))
        return copy

    def damaged_elf(self, edit: Callable[[bytearray, ElfCore], None]) -> Path:
        """Makes a copy of the ELF dump with one defect."""
        copy = self.directory / "damaged"
        content = bytearray(self.elf.read_bytes())
        edit(content, ElfCore(self.elf))
        copy.write_bytes(content)
        return copy


def kdump_cases(bench: Bench) -> Iterator[Case]:
    """The judges of kdump-compressed files."""

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
    """The judge of bitmaps, with a raw bitmap as the second file."""
    raw = bench.directory / "level-31.bitmap"

    def judge(edit: Edit) -> bool:
        other = Kdump(bench.damaged(bench.lzo, edit))
        raw.write_bytes(other.dumped.to_bytes(other.max_mapnr // 8 + 1, "little"))
        return same_bitmap.judge(bench.lzo, raw).passed

    yield "raw bitmap", lambda: judge(lambda file, dump: None), True
    yield "raw bitmap: one page fewer", lambda: judge(flip_bit(1, first_dumped)), False


def prepared_cases(bench: Bench) -> Iterator[Case]:
    """The judge of the pages that the guest has prepared."""
    listed = bench.vmcore.with_name("pages.txt")

    def first_of(kind: str) -> Callable[[Kdump], int]:
        return lambda dump: next(bits.members(prepared_pages.read_list(listed)[kind]))

    def judge(edit: Edit, level: int = 31) -> bool:
        return prepared_pages.judge(bench.damaged(bench.lzo, edit), listed, level).passed

    yield "prepared pages", lambda: judge(lambda file, dump: None), True
    yield "prepared pages: a level that keeps some", lambda: judge(lambda file, dump: None, 8), False
    for kind in ("anon", "cache_clean"):
        yield f"prepared pages: one of {kind} is dumped", lambda k=kind: judge(flip_bit(1, first_of(k))), False


def elf_cases(bench: Bench) -> Iterator[Case]:
    """The judge of ELF dumps, with and without a bitmap."""

    def judge(edit, kept: Path | None = None) -> bool:
        damaged = bench.damaged_elf(edit)
        return same_elf.judge(damaged, bench.elf, bench.vmcore, kept).passed

    def header(core: ElfCore, kind: int, index: int) -> int:
        """Returns the file offset of the index-th program header of a kind."""
        places = [n for n, fields in enumerate(core.raw_headers) if fields[0] == kind]
        return core.program_header_offset + 56 * places[index]

    def nothing(file: bytearray, core: ElfCore) -> None:
        pass

    def flip(file: bytearray, core: ElfCore) -> None:
        segment = core.segments[1]
        file[segment.offset + segment.filesz // 2] ^= 4

    def shorter(file: bytearray, core: ElfCore) -> None:
        # A segment at the start of memory: /proc/vmcore has the kernel's text in two segments.
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
        "one page fewer": shorter,
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
    """A mended file has the contents of the vmcore."""
    return "mended ELF", lambda: same_elf.judge(
        bench.openable, bench.vmcore, bench.vmcore, None
    ).passed, True


def dmesg_cases(bench: Bench) -> Iterator[Case]:
    """The judge of kernel logs, with makedumpfile's log on both sides."""
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
    """The rules must agree with their own selection, and with no change of it."""
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
    yield "explain: one page fewer", lambda: judge(right & ~(1 << stays)), False
    yield "explain: one page more", lambda: judge(right | 1 << goes), False


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


def inspection_cases(bench: Bench, bigiron: Bigiron, vmlinux: Path) -> Iterator[Case]:
    """The judges of bigiron's output, on dumps whose memory differs from the memory that drgn reads."""
    judges = {
        "info": (same_info.judge, replace(b"sysrq_handle_crash+", b"sysrq_handle_crasx+")),
        "tasks and stacks": (same_tasks.judge, replace(b"kthreadd\0", b"kthreadx\0")),
        "modules": (same_modules.judge, replace(b"virtballoon_probe\0", b"virtballoon_prxbe\0")),
        "read": (same_values.judge, replace(b"swapper/0\0", b"swapper/9\0")),
    }
    for name, (judge, edit) in judges.items():

        def passes(dump: Path, judge: by_symbols.Judge = judge) -> bool:
            try:
                return judge(bigiron, str(vmlinux), dump, bench.openable).passed
            except ToolFailed:
                # A name known to drgn is missing from the dump.
                return False

        yield name, lambda p=passes: p(bench.raw), True
        yield f"{name}: different data in memory", lambda p=passes, e=edit: p(bench.damaged(bench.raw, e)), False


def symbol_cases(bench: Bench, vmlinux: Path) -> Iterator[Case]:
    """The judges with crash and drgn and debug symbols, on dumps with different memory."""

    def tasks(b: Path) -> bool:
        return drgn_tasks.judge(vmlinux, bench.openable, b).passed

    def name() -> Path:
        return bench.damaged(bench.raw, replace(b"kthreadd\0", b"kthreadx\0"))

    @cache
    def answers() -> dict[str, crash_text.Answers]:
        """Returns crash's output for three dumps, which are opened concurrently because crash is slow."""
        log = bench.damaged(bench.raw, replace(b"Command line:", b"Command lime:"))
        dumps = [str(dump) for dump in (bench.raw, bench.lzo, log)]
        return dict(zip(("raw", "lzo", "log"), crash_text.run(str(vmlinux), dumps, crash_text.COMMANDS)))

    def crash(b: str) -> bool:
        printed = answers()
        return crash_text.compare_answers(("raw", b), printed["raw"], printed[b]).passed

    yield "tasks: another name", lambda: tasks(name()), False
    yield "crash", lambda: crash("lzo"), True
    yield "crash: another log", lambda: crash("log"), False


def carry_out(cases: Iterator[Case]) -> tuple[int, int]:
    """Runs the cases; an exception counts as no verdict."""
    passed = failed = 0
    for name, judge, expected in cases:
        try:
            verdict = judge()
        except CannotJudge as reason:
            print(f"SKIP {name}: {reason}", flush=True)
            continue
        if verdict == expected:
            passed += 1
            print(f"OK   {name}: {'passes' if verdict else 'detected'}", flush=True)
        else:
            failed += 1
            print(f"FAIL {name}: {'not detected' if verdict else 'does not pass'}", flush=True)
    return passed, failed


def all_cases(bench: Bench, vmlinux: Path | None, bigiron: Path | None) -> Iterator[Case]:
    yield mended_case(bench)
    yield from trace_cases.cases()
    yield from kdump_cases(bench)
    yield from raw_bitmap_cases(bench)
    yield from prepared_cases(bench)
    yield from elf_cases(bench)
    yield from explain_cases(bench)
    yield from dmesg_cases(bench)
    yield from libkdumpfile_cases(bench)
    if vmlinux:
        yield from symbol_cases(bench, vmlinux)
    if vmlinux and bigiron:
        yield from inspection_cases(bench, Bigiron(bigiron), vmlinux)


def main() -> int:
    peers_venv.run_inside()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vmcore", type=Path)
    parser.add_argument("--vmlinux", type=Path, help="debug symbols of the vmcore's kernel")
    parser.add_argument("--bigiron", type=Path, help="enables the judges of bigiron's output")
    options = parser.parse_args()
    roomy = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="bigiron-selftest-", dir=roomy) as directory:
        try:
            bench = Bench(options.vmcore, Path(directory), Makedumpfile())
        except CannotJudge as error:
            return error.finish()
        passed, failed = carry_out(all_cases(bench, options.vmlinux, options.bigiron))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
