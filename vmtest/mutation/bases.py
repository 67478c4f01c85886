"""The cores that dumps are made of: a synthetic machine, and the part of the shipped vmcore that its commands read."""

import re
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from elfcore import PT_LOAD, PT_NOTE, ElfCore
from lab import tools
from lab.errors import LabError

PAGE = 4096
PREAD = re.compile(rb", (\d+), (\d+)\) += (\d+)$")

# Pages of several classes, and a kernel log. No smaller machine has room for its kernel image and its struct pages.
MACHINE = """
kernel 6.12 vmemmap_leaf=4k image_leaf=4k
ram 0x0-0x9f 0x100-0x9ff
pages 0x400 slab n=16 fill=random:3
pages 0x420 cache n=8 fill=random:4 ; 0x430 cache private n=4 dirty fill=random:5
pages 0x440 slab n=8 fill=zero ; 0x450 slab n=8 fill=const:7 ; 0x460 anon n=8
log lockless n=60
"""

# What these read of the shipped vmcore is kept: symbols, types, tasks, modules, the log.
READERS = (
    ("info", "--tasks", "--stacks", "--run-queues", "--backtrace", "--modules", "--memory"),
    ("dmesg",),
    ("cpu", "domains"),
)


def machine(core: Path, synth_core: Path) -> None:
    """Writes the core of the synthetic machine: 10 MB, mostly zeros."""
    done = subprocess.run([synth_core, core], input=MACHINE.encode(), capture_output=True, timeout=600)
    if done.returncode != 0:
        raise LabError(f"{synth_core}: {done.stderr.decode(errors='replace')}")


def _read_ranges(bigiron: Path, source: Path, words: tuple[str, ...]) -> list[tuple[int, int]]:
    """Returns the extents of the source that a command reads."""
    with tempfile.NamedTemporaryFile(prefix="bigiron-reads.") as trace:
        tools.run(["strace", "-f", "-e", "trace=pread64", "-o", trace.name, bigiron, *words, source])
        lines = Path(trace.name).read_bytes().splitlines()
    found = (PREAD.search(line) for line in lines)
    return [(int(match[2]), int(match[3])) for match in found if match]


def _pages(source: ElfCore, extents: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the pages that contain these extents of the file: physical and virtual address, by segment."""
    places = set()
    for offset, size in extents:
        for segment in source.segments:
            first = max(offset, segment.offset)
            last = min(offset + size, segment.offset + segment.filesz)
            for at in range((first - segment.offset) // PAGE * PAGE, last - segment.offset, PAGE):
                places.add((segment.paddr + at, segment.vaddr + at))
    return sorted(places)


def state(core: Path, bigiron: Path, sample: Path) -> None:
    """Writes a core of the pages of `sample` that commands read, as PT_LOADs in ascending order: 10 MB."""
    source = ElfCore(sample)
    extents = [extent for words in READERS for extent in _read_ranges(bigiron, sample, words)]
    runs: list[list[int]] = []
    for physical, virtual in _pages(source, extents):
        if runs and runs[-1][0] + runs[-1][2] == physical:
            runs[-1][2] += PAGE
        elif not runs or physical >= runs[-1][0] + runs[-1][2]:
            runs.append([physical, virtual, PAGE])
    notes = b"".join(
        bytes(source.map[offset : offset + size])
        for kind, _, offset, _, _, size, _, _ in source.raw_headers
        if kind == PT_NOTE
    )
    notes_at = 64 + 56 * (1 + len(runs))
    at = -(-(notes_at + len(notes)) // PAGE) * PAGE
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 4, source.machine, 1, 0, 64, 0, 0, 64, 56, 1 + len(runs), 0, 0, 0)
    header += struct.pack("<IIQQQQQQ", PT_NOTE, 0, notes_at, 0, 0, len(notes), len(notes), 0)
    data = []
    for physical, virtual, size in runs:
        header += struct.pack("<IIQQQQQQ", PT_LOAD, 7, at, virtual, physical, size, size, 0)
        data.append(bytes(source.read(physical, size)))
        at += size
    head = header + notes
    core.write_bytes(head + bytes(-len(head) % PAGE) + b"".join(data))
