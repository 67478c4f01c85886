"""Rows of the matrix: dumps of every kind, judged by structure, selection and every page's bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import drgn_tasks
import same_elf
import same_vmdump
from case import FULL, SLOW_DISK, Case, Row
from verdict import Verdict


def plain_row(case: Case, level: int, codec: str, **options) -> Row:
    """A dump of the vmcore itself."""

    def check() -> Verdict:
        target = case.target
        limit = SLOW_DISK if codec == "adaptive" else None
        case.bigiron.dump(case.vmcore, target, level, codec, write_limit=limit, **options)
        return case.judge(target, level, codec)

    extra = "".join(f" {name}={value}" for name, value in options.items())
    return f"-d {level} -c {codec}{extra}", check


def source_row(case: Case, codec: str) -> Row:
    """A kdump-compressed file by makedumpfile as the source."""

    def check() -> Verdict:
        source = case.makedumpfile.dump(case.openable, case.scratch / "source", 1, codec)
        target = case.target
        case.bigiron.dump(source, target, FULL, "lzo")
        return case.judge(target, FULL)

    return f"source: makedumpfile's {codec} dump -d 1", check


def refilter_row(case: Case, codec: str) -> Row:
    """Tests that filtering twice keeps the same pages as filtering once."""

    def check() -> Verdict:
        between, target = case.scratch / "between", case.target
        case.bigiron.dump(case.vmcore, between, 1, codec)
        case.bigiron.dump(between, target, FULL, codec)
        return case.judge(target, FULL, codec)

    return f"-d 31 of our own -d 1, {codec}", check


def flattened_rows(case: Case) -> Iterator[Row]:
    """Flattened files, to and from makedumpfile, and through pipes."""
    flat = case.scratch / "flattened"

    def file_out() -> Verdict:
        case.bigiron.dump(case.vmcore, flat, FULL, "zlib", form="flattened")
        return case.judge(case.makedumpfile.rearrange(flat, case.target), FULL, "zlib")

    def pipe_out() -> Verdict:
        case.bigiron.dump(case.vmcore, "-", FULL, "lzo", form="flattened", stdout=flat)
        return case.judge(case.makedumpfile.rearrange(flat, case.target), FULL, "lzo")

    def file_in() -> Verdict:
        case.makedumpfile.flatten(case.openable, flat, 1)
        target = case.target
        case.bigiron.dump(flat, target, FULL, "lzo")
        return case.judge(target, FULL)

    def pipe_in() -> Verdict:
        case.makedumpfile.flatten(case.openable, flat, 1)
        target = case.target
        case.bigiron.dump("-", target, FULL, "lzo", stdin=flat)
        return case.judge(target, FULL)

    yield "flattened file, rearranged by makedumpfile -R", file_out
    yield "flattened stdout, rearranged by makedumpfile -R", pipe_out
    yield "source: makedumpfile -F, as a file", file_in
    yield "source: makedumpfile -F, from stdin", pipe_in


def elf_row(case: Case, level: int) -> Row:
    """An ELF dump; a judged kdump file determines the pages that it must contain."""

    def check() -> Verdict:
        ours, kept = case.scratch / "elf", case.target
        theirs = case.makedumpfile.elf(case.openable, case.scratch / "elf-theirs", level)
        case.bigiron.dump(case.vmcore, ours, level, form="elf")
        case.bigiron.dump(case.vmcore, kept, level)
        verdict = Verdict("ELF")
        case.judge_selection(kept, level, verdict)
        verdict.merge(same_elf.judge(ours, theirs, case.vmcore, kept))
        return verdict

    return f"-d {level} -f elf", check


def vmdump_rows(case: Case, quick: bool, vmlinux: Path | None) -> Iterator[Row]:
    """vmdumps, unpacked by zstd -d and bzip2 -d alone, and as sources."""
    packed, core, kept = (case.scratch / name for name in ("vmdump", "core", "kept"))

    def unpacked(level: int, codec: str) -> Verdict:
        case.bigiron.dump(case.vmcore, packed, level, codec, form="vmdump")
        case.bigiron.dump(case.vmcore, kept, level)
        verdict = Verdict("vmdump")
        case.judge_selection(kept, level, verdict)
        verdict.merge(same_vmdump.judge(packed, core, case.vmcore, kept))
        return verdict

    def as_source(level: int, codec: str) -> Verdict:
        case.bigiron.dump(case.vmcore, packed, level, codec, form="vmdump")
        case.bigiron.dump(packed, case.target, FULL, "zstd")
        return case.judge(case.target, FULL, "zstd")

    def opened() -> Path:
        case.bigiron.dump(case.vmcore, packed, FULL, "zstd", form="vmdump")
        same_vmdump.unpack(packed, core)
        return core

    unpackings = ((FULL, "zstd"), (1, "zstd"), (FULL, "zstd:3"), (FULL, "bzip2"))
    for level, codec in unpackings[: 1 if quick else None]:
        yield f"-d {level} -f vmdump -c {codec}, unpacked", lambda v=level, c=codec: unpacked(v, c)
    for level, codec in ((1, "zstd"), (FULL, "bzip2"))[: 1 if quick else 2]:
        yield f"source: a vmdump -d {level} -c {codec}", lambda v=level, c=codec: as_source(v, c)
    if vmlinux:
        yield "drgn lists the tasks of an unpacked vmdump", lambda: drgn_tasks.judge(
            vmlinux, opened(), case.vmcore
        )
    if vmlinux and not quick:
        # A mounted dump is the same to crash, and is always judged.
        yield "crash on an unpacked vmdump", lambda: case.judge_by_crash(opened(), vmlinux)


def split_row(case: Case) -> Row:
    """The files of makedumpfile --split as one source."""

    def check() -> Verdict:
        parts = [case.scratch / f"part-{number}" for number in range(3)]
        case.makedumpfile.split(case.openable, parts, 1)
        target = case.target
        case.bigiron.dump(parts, target, FULL, "lzo")
        return case.judge(target, FULL)

    return "source: makedumpfile --split in three", check
