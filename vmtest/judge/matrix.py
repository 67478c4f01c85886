#!/usr/bin/env python3
"""Compares bigiron's dumps of real vmcores with makedumpfile's dumps and with the sources.

Every row makes a dump in one way, and judges its structure, its page frames, and the bytes of every page. The expected
page frames are those that makedumpfile keeps. For a kernel too new for the installed makedumpfile, they follow from the
rules in explain.py, which must explain every difference from makedumpfile's choice.

Two rows are judged at a time, each in a separate process with its own files. Their lines are printed in the order of
the rows.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peers_venv
from case import CODECS, FULL, Case, Check, Row
from dump_rows import elf_row, flattened_rows, plain_row, refilter_row, source_row, split_row, vmdump_rows
from image_rows import image_rows
from look_rows import dmesg_rows, erase_rows, mounted_rows, reader_rows, trace_rows
from tools import Bigiron, Makedumpfile, ToolFailed
from verdict import CannotJudge, Verdict

QUICK_LEVELS = (0, 1, 2, 4, 8, 16, 23, 31)
SHOWN = 3
PROCESSES = 2
REPORTED_COUNTS = (
    "descriptors",
    "pages equal",
    "absent pages fault",
    "pages equal to the source",
    "prepared pages",
    "dumped pages compared",
    "tasks",
    "tasks equal",
    "frames",
    "symbols of modules",
    "values",
    "lines equal",
)


def rows(
    case: Case, levels: list[int], codecs: list[str], quick: bool, vmlinux: Path | None
) -> Iterator[Row]:
    """Yields all rows of one vmcore; a quick selection has every level and codec once."""
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
    yield from image_rows(case, None if quick else vmlinux)
    for level in (FULL,) if quick else (0, 1, 8, FULL):
        yield elf_row(case, level)
    yield from vmdump_rows(case, quick, vmlinux)
    yield from dmesg_rows(case, None if quick else vmlinux)
    if case.crashed:
        yield from trace_rows(case)
    # A quick run judges the contents of a kernel's memory only for crashed kernels.
    looked_at = case.crashed or not quick
    if looked_at:
        yield from erase_rows(case, quick, vmlinux)
    if looked_at and vmlinux:
        yield from mounted_rows(case, quick, vmlinux)
    for codec in codecs[-1:] if quick else codecs[-2:]:
        yield from reader_rows(case, codec, vmlinux if looked_at else None)


@dataclass(frozen=True)
class Outcome:
    """Result of a row: passed, failed or skipped, and its lines."""

    kind: str
    lines: list[str]

    def tell(self, tally: dict[str, int]) -> None:
        tally[self.kind] += 1
        print("\n".join(self.lines), flush=True)


def outcome(name: str, check: Check) -> Outcome:
    """Judges one row; an exception counts as a failure."""
    started = time.monotonic()
    try:
        verdict = check()
    except CannotJudge as reason:
        return Outcome("skipped", [f"SKIP {name}: {reason}"])
    except ToolFailed as error:
        verdict = Verdict(name)
        verdict.differ(str(error))
    seconds = time.monotonic() - started
    reported = [f"{verdict.counts[what]} {what}" for what in REPORTED_COUNTS if what in verdict.counts]
    explained = sum(n for what, n in verdict.counts.items() if what.startswith("correctly"))
    if explained:
        reported.append(f"{explained} differences explained")
    word = "OK  " if verdict.passed else "FAIL"
    lines = [f"{word} {name}: {', '.join([*reported, f'{seconds:.1f} s'])}"]
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
    """Judges all rows of one vmcore. The arguments after the case are those of `rows`."""
    numbers = range(len(list(rows(case, *choice))))
    with ProcessPoolExecutor(PROCESSES, initializer=RowsOfCase.open, initargs=(case, *choice)) as pool:
        for judged in pool.map(RowsOfCase.outcome, numbers):
            judged.tell(tally)


def by_vmcore(pairs: list[str]) -> dict[Path, Path]:
    """Parses VMCORE=PATH options into a table."""
    split = (pair.split("=", 1) for pair in pairs)
    return {Path(vmcore).resolve(): Path(path) for vmcore, path in split}


def numbers(text: str) -> list[int]:
    """Parses `0-3,31` into a list."""
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
    parser.add_argument("--quick", action="store_true", help="a short selection of rows")
    parser.add_argument("--expected", action="append", default=[], metavar="VMCORE=DIR",
                        help="raw bitmaps ram.bitmap and level-NN.bitmap, which must match too")
    parser.add_argument("--vmlinux", action="append", default=[], metavar="VMCORE=PATH",
                        help="debug symbols: adds the rows of crash and drgn")
    return parser.parse_args()


def main() -> int:
    peers_venv.run_inside()
    options = arguments()
    expected, vmlinux = by_vmcore(options.expected), by_vmcore(options.vmlinux)
    unknown = {*expected, *vmlinux} - {path.resolve() for path in options.vmcores}
    if unknown:
        print(f"not among --vmcores: {', '.join(map(str, unknown))}", file=sys.stderr)
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
