"""Kills programs at random moments: only objects that the program had not yet removed may remain."""

import os
import random
import signal
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from lab.errors import LabError, Unavailable

from . import left
from .cgroup import Cgroup
from .parts import Results
from .run import SMALL, Library

# Size of the objects, and maximum lifetime of the program in seconds. The larger objects go to the reaper.
SIZES = ((32 << 20, 0.15), (32 << 20, 0.15), (300 << 20, 1.0))
# Tolerance for caches and the kernel's batched counting.
TOLERANCE = 8 << 20


def _read(journal: Path) -> tuple[int, int, int, int]:
    """Reads the program's journal (victim.c)."""
    making, segment, rounds, destroying = struct.unpack("4i", journal.read_bytes())
    return making, segment, rounds, destroying


def _leftovers(journal: Path, group: Cgroup | None, before: int) -> str:
    """Returns the defects found after a kill; empty if there are none."""
    if not left.wait_until(lambda: not left.processes()):
        return f"    processes remain: {', '.join(left.processes())}"
    making, segment, _, _ = _read(journal)
    found = left.segments()
    wrong = []
    # A program killed while creating a segment may leave one that it has not recorded.
    allowed = {segment} if not making else {number for number, _, _ in found[:1]}
    for number, size, attached in found:
        if attached or number not in allowed:
            wrong.append(f"    segment {number} of {size} bytes, attached {attached}, remains; allowed: {allowed}")
    left.remove_segments()
    if left.files():
        wrong.append(f"    files remain in /dev/shm: {left.files()}")
    if group and not left.wait_until(lambda: group.usage() <= before + TOLERANCE):
        wrong.append(f"    {group.usage() - before} bytes of memory were not freed")
    return "\n".join(wrong)


def kills(program: Path, library: Path, count: int, seed: int, results: Results) -> str:
    """Kills `count` programs; returns a summary."""
    chance = random.Random(seed)
    rounds = reapers = 0
    # This process is the first of a PID namespace. The library must recognize it by its name as an init that reaps all
    # children; otherwise programs do not use the reaper.
    Path("/proc/self/comm").write_text("init")
    try:
        group: Cgroup | None = Cgroup("kills")
    except Unavailable as error:
        print(f"    memory is not counted: {error}")
        group = None
    with tempfile.TemporaryDirectory(prefix="bigiron-kills.") as directory:
        for number in range(count):
            size, longest = SIZES[number % len(SIZES)]
            journal = Path(directory) / "journal"
            journal.write_bytes(struct.pack("4i", 0, -1, 0, 0))
            before = group.usage() if group else 0
            victim = subprocess.Popen(
                [program, "victim", str(seed + number), str(size), str(journal)],
                env=Library(library, SMALL).environment(), preexec_fn=group.join if group else None,
            )  # fmt: skip
            if number % 2 and left.wait_until(lambda: _read(journal)[3] == 1, 5):
                time.sleep(chance.uniform(0, 0.02))
            else:
                time.sleep(chance.uniform(0.002, longest))
            os.kill(victim.pid, signal.SIGKILL)
            if victim.wait(60) != -signal.SIGKILL:
                raise LabError(f"the program ended by itself, status {victim.returncode}: not enough memory?")
            reapers += any("(bigiron)" in name for name in left.processes())
            rounds += _read(journal)[2]
            results.record(f"kill {number} (seed {seed}, {size >> 20} MiB)", _leftovers(journal, group, before))
    if group:
        with group:
            pass
    return f"{count} programs killed after {rounds} rounds, in {reapers} cases the reaper was still freeing memory"
