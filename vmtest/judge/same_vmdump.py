#!/usr/bin/env python3
"""Judges the output of `zstd -d` or `bzip2 -d` for a vmdump.

It must be an ELF core with the source's bytes in kept pages and zeros in all others. The kept pages are those of a
kdump-compressed file of the same level, which another judge compares with makedumpfile's.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import bits
from elfcore import ElfCore, Malformed
from kdump_layout import Kdump
from same_elf import compare_headers
from tools import ToolFailed, run
from verdict import CannotJudge, Verdict

LONGEST_COMPARE = 1024
SEEKABLE_READS = 400
LONGEST_SEEKABLE_READ = 300_000


def unpack(dump: str | Path, core: str | Path) -> None:
    """Unpacks with the standard program for the file's first bytes."""
    with open(dump, "rb") as file:
        program = "bzip2" if file.read(3) == b"BZh" else "zstd"
    if not shutil.which(program):
        raise CannotJudge(f"{program} is not installed")
    if program == "zstd":
        run(["zstd", "-q", "-d", "-f", str(dump), "-o", str(core)])
    else:
        run(["bzip2", "-d", "-c", str(dump)], stdout=Path(core))


def compare_pages(core: ElfCore, source: ElfCore, kept: Kdump, verdict: Verdict) -> None:
    """Judges that kept pages equal the source's, and that excluded pages are zeros."""
    size = core.page_size
    for start, end in bits.runs(kept.dumped, LONGEST_COMPARE):
        ours = core.read(start * size, (end - start) * size)
        theirs = source.read(start * size, (end - start) * size)
        if ours == theirs:
            verdict.count("pages equal to the source", end - start)
        else:
            verdict.differ(f"page frames {start:#x} to {end:#x} differ from the source")
    for start, end in bits.runs(kept.ram & ~kept.dumped, LONGEST_COMPARE):
        if any(core.read(start * size, (end - start) * size)):
            verdict.differ(f"excluded page frames {start:#x} to {end:#x} are not zeros")
        else:
            verdict.count("excluded pages", end - start)


def seekable_reader_agrees(dump: str | Path, core: str | Path, verdict: Verdict) -> None:
    """Compares random reads by pyzstd, a reader of the zstd seekable format, with the unpacked file."""
    with open(dump, "rb") as file:
        if file.read(3) == b"BZh":
            return
    import pyzstd

    random = Random(1)
    size = Path(core).stat().st_size
    with pyzstd.SeekableZstdFile(dump, "rb") as theirs, open(core, "rb") as unpacked:
        verdict.require(theirs.seek(0, 2) == size, "the seek table has a different length")
        for _ in range(SEEKABLE_READS):
            start, length = random.randrange(size), random.randrange(1, LONGEST_SEEKABLE_READ)
            theirs.seek(start)
            unpacked.seek(start)
            if theirs.read(length) == unpacked.read(length):
                verdict.count("random reads by the seek table", 1)
            else:
                verdict.differ(f"the seek table yields different bytes at {start:#x}")


def gdb_opens(core: str | Path, verdict: Verdict) -> None:
    """Judges that gdb recognizes the file as a core and finds its memory."""
    if not shutil.which("gdb"):
        return
    command = ["gdb", "-nx", "-batch", "-ex", "info files", "-c", str(core)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=900).stdout
    verdict.require("load1" in output, f"gdb finds no memory in {Path(core).name}")


def judge(dump: str | Path, core: str | Path, source: str | Path, kept: str | Path) -> Verdict:
    """Unpacks DUMP to CORE and compares it."""
    verdict = Verdict(f"vmdump {Path(dump).name}")
    unpack(dump, core)
    try:
        ours, theirs, kdump = ElfCore(core), ElfCore(source), Kdump(kept)
        compare_headers(ours, theirs, verdict)
        compare_pages(ours, theirs, kdump, verdict)
    except Malformed as error:
        verdict.differ(str(error))
    seekable_reader_agrees(dump, core, verdict)
    gdb_opens(core, verdict)
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dump", help="a vmdump")
    parser.add_argument("core", help="path for the unpacked core")
    parser.add_argument("source", help="the ELF core from which it was made")
    parser.add_argument("kept", help="a kdump-compressed file of the same level")
    options = parser.parse_args()
    try:
        verdict = judge(options.dump, options.core, options.source, options.kept)
    except CannotJudge as error:
        return error.finish()
    except ToolFailed as error:
        print(error, file=sys.stderr)
        return 1
    return verdict.finish()


if __name__ == "__main__":
    sys.exit(main())
