"""Programs that are killed at any moment: only objects that the program itself had not removed yet may remain."""

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
from .parts import Told
from .run import SMALL, Library

# Sizes of objects that a program makes and destroys, and its maximum lifetime. The larger ones go to the reaper.
SIZES = ((32 << 20, 0.15), (32 << 20, 0.15), (300 << 20, 1.0))
# Tolerance for caches and the kernel's batched counting.
TOLERANCE = 8 << 20


def _read(journal: Path) -> tuple[int, int, int, int]:
    """Reads the account that the program keeps (victim.c)."""
    making, segment, rounds, destroying = struct.unpack("4i", journal.read_bytes())
    return making, segment, rounds, destroying


def _leftovers(journal: Path, group: Cgroup | None, before: int) -> str:
    """Returns the defects after a program was killed; empty if there are none."""
    if not left.wait_until(lambda: not left.processes()):
        return f"    processes are left: {', '.join(left.processes())}"
    making, segment, _, _ = _read(journal)
    found = left.segments()
    wrong = []
    # A program killed while making an object may leave one that it did not note.
    allowed = {segment} if not making else {number for number, _, _ in found[:1]}
    for number, size, attached in found:
        if attached or number not in allowed:
            wrong.append(f"    segment {number} of {size} bytes, attached {attached}, is left; allowed: {allowed}")
    left.remove_segments()
    if left.files():
        wrong.append(f"    files are left in /dev/shm: {left.files()}")
    if group and not left.wait_until(lambda: group.usage() <= before + TOLERANCE):
        wrong.append(f"    {group.usage() - before} bytes of memory are not back")
    return "\n".join(wrong)


def kills(program: Path, library: Path, count: int, seed: int, told: Told) -> str:
    """Kills `count` programs; returns the number of rounds they had done."""
    chance = random.Random(seed)
    rounds = reapers = 0
    # This process is the first of a PID namespace. Its name must identify it as one that reaps all children: otherwise
    # programs have no reaper there.
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
                raise LabError(f"the program ended by itself, status {victim.returncode}: too little memory here?")
            reapers += any("(bigiron)" in name for name in left.processes())
            rounds += _read(journal)[2]
            told.tell(f"kill {number} (seed {seed}, {size >> 20} MiB)", _leftovers(journal, group, before))
    if group:
        with group:
            pass
    return f"{count} programs killed after {rounds} rounds, {reapers} while others were giving their memory back"
