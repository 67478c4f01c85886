#!/usr/bin/env python3
"""Holds bigiron's dumps of real vmcores against makedumpfile's and the sources.

Every row makes a dump in one way and has it judged by its structure, by the
page frames it keeps, and by every page's bytes. The page frames are those that
makedumpfile keeps; for a kernel that the installed makedumpfile is too old for,
they are those of the rules in explain.py, and every difference from
makedumpfile's choice must be explained by them.

Rows are judged two at a time, each in a process of its own with files of its
own; their lines come in the rows' order.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import crash_text
import drgn_tasks
import kdump_layout
import libkdumpfile_read
import mend_elf
import mounted
import peers_venv
import same_bitmap
import same_dmesg
import same_elf
import same_erase
import same_info
import same_memory
import same_modules
import same_names
import same_pages
import same_tasks
import same_values
import same_vmdump
from elfcore import ElfCore
from explain import Explainer
from kdump_layout import Kdump
from tools import Bigiron, Makedumpfile, ToolFailed, run
from verdict import CannotJudge, Verdict

CODECS = ("none", "zlib", "lzo", "snappy", "zstd", "adaptive")
# A disk slow enough that it chooses all of them.
SLOW_DISK = "20M"
QUICK_LEVELS = (0, 1, 2, 4, 8, 16, 23, 31)
FULL = 31
SHOWN = 3
PROCESSES = 2
TOLD = (
    "descriptors",
    "pages equal",
    "absent pages fault",
    "pages equal to the source",
    "tasks",
    "frames",
    "symbols of modules",
    "values",
    "lines equal",
)
Check = Callable[[], Verdict]
Row = tuple[str, Check]


class Case:
    """One vmcore, and what rows share about it: references are made once, by the process that comes first."""

    def __init__(
        self,
        vmcore: Path,
        directory: Path,
        makedumpfile: Makedumpfile,
        bigiron: Bigiron,
        expected: Path | None,
    ) -> None:
        self.vmcore = vmcore
        self.directory = directory
        self.makedumpfile = makedumpfile
        self.bigiron = bigiron
        self.expected = expected

    @contextmanager
    def _to_make(self, name: str) -> Iterator[tuple[Path, bool]]:
        """A file that rows share, and whether it is still to be made; others wait meanwhile."""
        target = self.directory / name
        with open(self.directory / f".{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = self.directory / f".{name}.done"
            yield target, not done.exists()
            done.touch()

    @cached_property
    def openable(self) -> Path:
        """The vmcore in a form that makedumpfile opens."""
        if not mend_elf.needs_mending(ElfCore(self.vmcore)):
            return self.vmcore
        with self._to_make("mended") as (mended, missing):
            if missing:
                mend_elf.mend(str(self.vmcore), str(mended))
        return mended

    @cached_property
    def explainer(self) -> Explainer | None:
        """The rules, for the kernels that they are written for."""
        try:
            return Explainer(self.vmcore)
        except CannotJudge:
            return None

    def reference(self, level: int) -> Path:
        """makedumpfile's dump of a level."""
        openable = self.openable
        with self._to_make(f"reference-{level}") as (target, missing):
            if missing:
                target.unlink(missing_ok=True)
                self.makedumpfile.dump(openable, target, level)
        return target

    @cached_property
    def log(self) -> bytes:
        """The kernel's log, by makedumpfile."""
        return same_dmesg.by_makedumpfile(self.makedumpfile, self.openable, self.scratch)

    def judge_by_crash(self, dump: Path, vmlinux: Path) -> Verdict:
        """Whether crash says of a dump what it says of the vmcore, which it is asked about once."""
        with self._to_make("said-by-crash") as (kept, missing):
            if missing:
                said, theirs = crash_text.run(str(vmlinux), [str(dump), str(self.openable)], crash_text.COMMANDS)
                kept.write_bytes(pickle.dumps(theirs))
        if not missing:
            theirs = pickle.loads(kept.read_bytes())
            (said,) = crash_text.run(str(vmlinux), [str(dump)], crash_text.COMMANDS)
        return crash_text.compare_answers((str(dump), str(self.openable)), said, theirs)

    @property
    def scratch(self) -> Path:
        """A row's own files."""
        return self.directory / f"scratch-{os.getpid()}"

    @property
    def target(self) -> Path:
        """Where a row's dump goes."""
        return self.scratch / "dump"

    def clear(self) -> None:
        """Begins a row: what the last one left, whole or not, is gone."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()

    def judge(self, dump: Path, level: int, codec: str | None = None) -> Verdict:
        """Structure, page frames and bytes of one kdump-compressed file."""
        verdict = Verdict("dump")
        structure = kdump_layout.judge(dump)
        verdict.merge(structure)
        if structure.passed:
            judge_codec(dump, codec, verdict)
            self.judge_selection(dump, level, verdict)
            verdict.merge(same_pages.judge(self.vmcore, dump))
        return verdict

    def judge_selection(self, dump: Path, level: int, verdict: Verdict) -> None:
        """Whether the right page frames are kept."""
        reference = self.reference(level)
        if self.explainer:
            ours, theirs = Kdump(dump), Kdump(reference)
            same_bitmap.compare_sets("RAM", ours.ram, theirs.ram, verdict)
            right = self.explainer.expected(ours.ram, level, ours.max_mapnr)
            same_bitmap.compare_sets("dumped, by the rules", ours.dumped, right, verdict)
            verdict.merge(
                self.explainer.judge(ours.dumped, theirs.dumped, level, ours.max_mapnr)
            )
        else:
            verdict.merge(same_bitmap.judge(dump, reference))
        if self.expected:
            for name in ("ram.bitmap", f"level-{level:02}.bitmap"):
                verdict.merge(same_bitmap.judge(dump, self.expected / name))


def judge_codec(dump: Path, codec: str | None, verdict: Verdict) -> None:
    """That the codec asked for was used: a dump of raw pages is right, and large."""
    if codec is None:
        return
    name = codec.split(":")[0]
    status = Kdump(dump).status
    found = {codec for bit, codec in kdump_layout.CODECS.items() if status & bit}
    right = {"none": set(), "adaptive": kdump_layout.ADAPTIVE}.get(name, {name})
    verdict.require(found == right, f"asked for {name}, the header says {sorted(found)}")


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
    """Filtering twice keeps what filtering once keeps."""

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

    yield "flattened file, put in order by makedumpfile -R", file_out
    yield "flattened stdout, put in order by makedumpfile -R", pipe_out
    yield "source: makedumpfile -F, as a file", file_in
    yield "source: makedumpfile -F, from stdin", pipe_in


def elf_row(case: Case, level: int) -> Row:
    """An ELF dump; which pages it must hold, a judged kdump file says."""

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


def dmesg_rows(case: Case, vmlinux: Path | None) -> Iterator[Row]:
    """The kernel's log, which every dump must hold."""

    def of_dump(form: str, codec: str) -> Verdict:
        case.bigiron.dump(case.vmcore, case.target, FULL, codec, form=form)
        return same_dmesg.judge(case.bigiron, case.target, case.log)

    def of_makedumpfile() -> Verdict:
        return same_dmesg.judge(case.bigiron, case.reference(FULL), case.log)

    yield "dmesg of the vmcore", lambda: same_dmesg.judge(case.bigiron, case.vmcore, case.log)
    for form, codec in (("kdump", "zstd"), ("flattened", "zlib"), ("elf", "none"), ("vmdump", "zstd")):
        yield f"dmesg of -d 31 -f {form}", lambda f=form, c=codec: of_dump(f, c)
    yield "dmesg of makedumpfile's dump -d 31", of_makedumpfile
    yield "vmcore-dmesg by both programs", lambda: same_dmesg.judge_vmcore_dmesg(
        case.bigiron, case.vmcore, case.scratch
    )
    if vmlinux:
        yield "dmesg and crash's log", lambda: same_dmesg.judge_crash(
            case.bigiron, vmlinux, case.openable
        )


def reader_rows(case: Case, codec: str, vmlinux: Path | None) -> Iterator[Row]:
    """Other programs that open the dump."""

    def made() -> Path:
        target = case.target
        limit = SLOW_DISK if codec == "adaptive" else None
        case.bigiron.dump(case.vmcore, target, FULL, codec, write_limit=limit)
        return target

    def libkdumpfile() -> Verdict:
        return other_python(libkdumpfile_read.__file__, str(case.vmcore), str(made()))

    yield f"Debian's libkdumpfile reads -d 31 -c {codec}", libkdumpfile
    if vmlinux:
        yield f"drgn lists the tasks of -d 31 -c {codec}", lambda: drgn_tasks.judge(
            vmlinux, made(), case.vmcore
        )
        yield f"info on -d 31 -c {codec} and drgn", lambda: same_info.judge(
            case.bigiron, vmlinux, made(), case.vmcore
        )
        yield f"info --memory --pages on -d 31 -c {codec}, drgn and crash", lambda: same_memory.judge(
            case.bigiron, vmlinux, made(), case.vmcore, case.openable
        )
        yield f"sym and type on -d 31 -c {codec} and drgn", lambda: same_names.judge(
            case.bigiron, vmlinux, made(), case.vmcore
        )
        yield f"modules on -d 31 -c {codec} and drgn", lambda: same_modules.judge(
            case.bigiron, vmlinux, made(), case.vmcore
        )
        yield f"tasks and stacks on -d 31 -c {codec} and drgn", lambda: same_tasks.judge(
            case.bigiron, vmlinux, made(), case.vmcore
        )
        yield f"modules on -d 31 -c {codec} and crash", lambda: same_modules.judge_by_crash(
            case.bigiron, vmlinux, made(), case.openable
        )
        yield f"read on -d 31 -c {codec} and drgn", lambda: same_values.judge(
            case.bigiron, vmlinux, made(), case.vmcore
        )
        yield f"crash on -d 31 -c {codec}", lambda: case.judge_by_crash(made(), vmlinux)


def mounted_rows(case: Case, quick: bool, vmlinux: Path) -> Iterator[Row]:
    """Dumps that are mounted, for programs that read plain cores."""

    def of(form: str, codec: str) -> Verdict:
        parts = [case.target]
        if form == "stripes":
            parts = [case.scratch / f"stripe-{number}" for number in range(3)]
            names = ",".join(map(str, parts))
            run([str(case.bigiron.program), "dump", "-q", "-d", str(FULL), "--stripe", names, str(case.vmcore)])
        else:
            case.bigiron.dump(case.vmcore, case.target, FULL, codec, form=form)
        return mounted.judge(
            case.bigiron, vmlinux, parts, case.openable, lambda core: case.judge_by_crash(core, vmlinux)
        )

    forms = (("vmdump", "zstd"), ("kdump", "zstd"), ("stripes", "zstd"), ("flattened", "zlib"))
    for form, codec in forms[: 1 if quick else None]:
        yield f"mounted: -d 31 -f {form} -c {codec}", lambda f=form, c=codec: of(f, c)


def erase_rows(case: Case, quick: bool, vmlinux: Path | None) -> Iterator[Row]:
    """Erased data, and VMCOREINFO made from vmlinux; both need debug symbols."""

    def symbols() -> Path:
        if case.explainer:
            raise CannotJudge("makedumpfile 1.7.2 cannot read the modules of this kernel")
        if not vmlinux:
            raise CannotJudge("no vmlinux with debug symbols (vmtest/vmcores debuginfo)")
        return vmlinux

    yield "erased as makedumpfile --config erases", lambda: same_erase.judge(
        case.makedumpfile, case.bigiron, case.openable, symbols(), case.scratch
    )
    if vmlinux and not quick:
        yield "VMCOREINFO as makedumpfile -g writes it", lambda: same_erase.judge_vmcoreinfo(
            case.makedumpfile, case.bigiron, vmlinux, case.scratch
        )


def other_python(script: str, *arguments: str) -> Verdict:
    """A judge that needs another Python, as a verdict."""
    ended = subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True
    )
    if ended.returncode == 3:
        raise CannotJudge(ended.stderr.strip().removeprefix("SKIP "))
    verdict = Verdict(Path(script).stem)
    verdict.require(ended.returncode == 0, ended.stdout.strip() or ended.stderr.strip())
    return verdict


def rows(
    case: Case, levels: list[int], codecs: list[str], quick: bool, vmlinux: Path | None
) -> Iterator[Row]:
    """All rows of one vmcore; the quick choice has every level and codec once."""
    if quick:
        for level, codec in zip(levels, itertools.cycle(codecs)):
            yield plain_row(case, level, codec)
        for codec in codecs:
            yield plain_row(case, FULL, codec, io="read")
    else:
        for level, codec in itertools.product(levels, codecs):
            yield plain_row(case, level, codec)
        for level, io, helpers in itertools.product((1, FULL), ("mmap", "read"), (1, 2, 5)):
            yield plain_row(case, level, "lzo", io=io, helpers=helpers)
    yield refilter_row(case, codecs[-1])
    yield from flattened_rows(case)
    for codec in case.makedumpfile.codecs:
        yield source_row(case, codec)
    yield split_row(case)
    for level in (FULL,) if quick else (0, 1, 8, FULL):
        yield elf_row(case, level)
    yield from vmdump_rows(case, quick, vmlinux)
    yield from dmesg_rows(case, None if quick else vmlinux)
    yield from erase_rows(case, quick, vmlinux)
    if vmlinux:
        yield from mounted_rows(case, quick, vmlinux)
    for codec in codecs[-1:] if quick else codecs[-2:]:
        yield from reader_rows(case, codec, vmlinux)


@dataclass(frozen=True)
class Outcome:
    """How a row ended: passed, failed or skipped, and the lines that say so."""

    kind: str
    lines: list[str]

    def tell(self, tally: dict[str, int]) -> None:
        tally[self.kind] += 1
        print("\n".join(self.lines), flush=True)


def outcome(name: str, check: Check) -> Outcome:
    """Judges one row; a row that raises has failed."""
    started = time.monotonic()
    try:
        verdict = check()
    except CannotJudge as reason:
        return Outcome("skipped", [f"SKIP {name}: {reason}"])
    except ToolFailed as error:
        verdict = Verdict(name)
        verdict.differ(str(error))
    seconds = time.monotonic() - started
    told = [f"{verdict.counts[what]} {what}" for what in TOLD if what in verdict.counts]
    explained = sum(n for what, n in verdict.counts.items() if what.startswith("rightly"))
    if explained:
        told.append(f"{explained} differences explained")
    word = "OK  " if verdict.passed else "FAIL"
    lines = [f"{word} {name}: {', '.join([*told, f'{seconds:.1f} s'])}"]
    lines += [f"  {line}" for line in verdict.explain(SHOWN)]
    return Outcome("passed" if verdict.passed else "failed", lines)


def carry_out(name: str, check: Check, tally: dict[str, int]) -> None:
    """Judges one row and prints its line."""
    outcome(name, check).tell(tally)


class RowsOfCase:
    """The rows of one vmcore, in a process that judges some of them."""

    case: Case
    rows: list[Row]

    @classmethod
    def open(cls, case: Case, *choice: Any) -> None:
        cls.case = case
        cls.rows = list(rows(case, *choice))

    @classmethod
    def outcome(cls, number: int) -> Outcome:
        cls.case.clear()
        return outcome(*cls.rows[number])


def judge_case(case: Case, tally: dict[str, int], *choice: Any) -> None:
    """All rows of one vmcore; what follows the case is what `rows` takes."""
    numbers = range(len(list(rows(case, *choice))))
    with ProcessPoolExecutor(PROCESSES, initializer=RowsOfCase.open, initargs=(case, *choice)) as pool:
        for judged in pool.map(RowsOfCase.outcome, numbers):
            judged.tell(tally)


def by_vmcore(pairs: list[str]) -> dict[Path, Path]:
    """VMCORE=PATH options as a table."""
    split = (pair.split("=", 1) for pair in pairs)
    return {Path(vmcore).resolve(): Path(path) for vmcore, path in split}


def numbers(text: str) -> list[int]:
    """`0-3,31` as a list."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bigiron", required=True, type=Path)
    parser.add_argument("--vmcores", required=True, type=Path, nargs="+")
    parser.add_argument("--levels", type=numbers, help="such as 0-31 or 1,17,31")
    parser.add_argument("--codecs", type=lambda text: text.split(","), default=list(CODECS))
    parser.add_argument("--quick", action="store_true", help="a choice for every day")
    parser.add_argument("--expected", action="append", default=[], metavar="VMCORE=DIR",
                        help="raw bitmaps ram.bitmap and level-NN.bitmap that must agree too")
    parser.add_argument("--vmlinux", action="append", default=[], metavar="VMCORE=PATH",
                        help="debug symbols: adds the rows of crash and drgn")
    return parser.parse_args()


def main() -> int:
    peers_venv.run_inside()
    options = arguments()
    expected, vmlinux = by_vmcore(options.expected), by_vmcore(options.vmlinux)
    strangers = {*expected, *vmlinux} - {path.resolve() for path in options.vmcores}
    if strangers:
        print(f"not among --vmcores: {', '.join(map(str, strangers))}", file=sys.stderr)
        return 2
    levels = options.levels or list(QUICK_LEVELS if options.quick else range(32))
    tally = {"passed": 0, "failed": 0, "skipped": 0}
    try:
        makedumpfile = Makedumpfile()
    except CannotJudge as error:
        return error.finish()
    bigiron = Bigiron(options.bigiron.resolve())
    roomy = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    for vmcore in options.vmcores:
        print(f"{vmcore}: against makedumpfile {makedumpfile.version}", flush=True)
        key = vmcore.resolve()
        with tempfile.TemporaryDirectory(prefix="bigiron-matrix-", dir=roomy) as directory:
            case = Case(vmcore, Path(directory), makedumpfile, bigiron, expected.get(key))
            judge_case(case, tally, levels, options.codecs, options.quick, vmlinux.get(key))
    closing = f"{tally['passed']} passed, {tally['failed']} failed"
    if tally["skipped"]:
        closing += f", {tally['skipped']} skipped"
    print(closing)
    return 1 if tally["failed"] or not tally["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
