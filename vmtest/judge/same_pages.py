#!/usr/bin/env python3
"""Judges whether a dump's pages equal the source's, as drgn reads them.

drgn reads kdump-compressed files through libkdumpfile, so neither the layout nor the decompression uses this project's
code. The reader must report an error for excluded page frames: a zero page instead would be wrong data.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import bits
import dispatch_counts
import peers_venv
from elfcore import EM_PPC64, ElfCore, Malformed
from kdump_layout import Kdump
from verdict import Verdict

PROCESSES = 2
CHUNK = 8192
LONGEST_READ = 256
ABSENT = ("Excluded page", "Out-of-bounds PFN")


class DrgnReader:
    """Physical memory of one dump through drgn."""

    def __init__(self, path: str | Path) -> None:
        import drgn

        self.program = drgn.Program()
        self.program.set_core_dump(str(path))

    def read(self, address: int, size: int) -> bytes | str:
        """Returns the bytes, or the reader's error."""
        try:
            return self.program.read(address, size, True)
        except Exception as error:  # its class depends on the kind of damage
            return str(error)


class Comparison:
    """The share of one process, which opens source and dump once."""

    def __init__(self, source: str, dump: str) -> None:
        self.kdump = Kdump(dump)
        self.page_size = self.kdump.block_size
        self.source = ElfCore(source, self.page_size)
        self.reader = DrgnReader(dump)
        self._is_power = self.source.machine == EM_PPC64

    def compare(self, start: int, end: int) -> Verdict:
        """Compares the page frames start..end with the source."""
        verdict = Verdict("pages")
        chunk = bits.span(start, end)
        for first, last in bits.runs(self.kdump.described & chunk, LONGEST_READ):
            self._compare_run(first, last, verdict)
        for pfn in bits.members(chunk & ~self.kdump.described):
            answer = self.reader.read(pfn * self.page_size, self.page_size)
            if isinstance(answer, bytes):
                verdict.differ(f"{self._where(pfn)}: excluded, but the reader returns data")
            elif not any(word in answer for word in ABSENT):
                verdict.differ(f"{self._where(pfn)}: excluded; the reader: {answer}")
            verdict.count("absent pages fault")
        return verdict

    def _compare_run(self, first: int, last: int, verdict: Verdict) -> None:
        size = self.page_size
        ours = self.reader.read(first * size, (last - first) * size)
        theirs = self.source.read(first * size, (last - first) * size)
        if ours == theirs:
            verdict.count("pages equal", last - first)
        elif last - first > 1:
            for pfn in range(first, last):
                self._compare_run(pfn, pfn + 1, verdict)
        elif isinstance(ours, str):
            verdict.differ(f"{self._where(first)}: dumped, but the reader: {ours}")
        elif self._is_power and dispatch_counts.blanked(ours) == dispatch_counts.blanked(theirs):
            verdict.count("pages equal but for a dispatch count")
        else:
            at = next(i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b)
            verdict.differ(
                f"{self._where(first)} + {at:#x}: "
                f"dump has {ours[at]:#04x}, source {theirs[at]:#04x}"
            )

    def _where(self, pfn: int) -> str:
        return f"pfn {pfn:#x} (address {pfn * self.page_size:#x})"


_comparison: Comparison


def _open(source: str, dump: str) -> None:
    global _comparison
    _comparison = Comparison(source, dump)


def _compare(chunk: tuple[int, int]) -> Verdict:
    return _comparison.compare(*chunk)


def judge(source: str | Path, dump: str | Path) -> Verdict:
    """Compares every page frame below max_mapnr, in two processes."""
    verdict = Verdict(f"pages of {Path(dump).name}")
    try:
        header = Kdump(dump)
        limit = min(header.max_mapnr, 8 * len(header.bitmap_bytes(0)))
        source_pages = ElfCore(source, header.block_size).memory()
    except Malformed as error:
        verdict.differ(str(error))
        return verdict
    alien = header.described & ~source_pages
    if alien:
        first = next(bits.members(alien))
        verdict.differ(f"pfn {first:#x} is dumped, but the source lacks this memory")
    chunks = [(at, min(at + CHUNK, limit)) for at in range(0, limit, CHUNK)]
    with ProcessPoolExecutor(
        PROCESSES, initializer=_open, initargs=(str(source), str(dump))
    ) as pool:
        for part in pool.map(_compare, chunks):
            verdict.merge(part)
    return verdict


def main() -> int:
    peers_venv.run_inside()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", help="the ELF core that was dumped")
    parser.add_argument("dump", nargs="+", help="kdump-compressed files made from it")
    arguments = parser.parse_args()
    verdicts = [judge(arguments.source, dump) for dump in arguments.dump]
    return max(verdict.finish() for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(main())
