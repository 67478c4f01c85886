"""Kills a program at a random moment: after a time, after a part of its output, or at a system call."""

import random
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import tools

CALLS = ("openat", "ftruncate", "pwrite64", "write", "fsync", "fdatasync", "renameat2", "unlink", "mkdir", "fallocate")
# Between two looks at the size of the output.
LOOK_SECONDS = 0.0005


@dataclass(frozen=True)
class Normal:
    """A run that is not killed: its time and the bytes that it writes."""

    seconds: float
    written: int


def written(places: Sequence[Path]) -> int:
    """Returns the allocated bytes of the files at these places and below."""
    total = 0
    for place in places:
        for path in (place, *place.rglob("*")):
            try:
                total += path.lstat().st_blocks * 512
            except OSError:
                continue
    return total


def _by_call(words: Sequence[str | Path], dice: random.Random, directory: Path) -> str:
    call = dice.choice(CALLS)
    # Few calls of a kind are made often.
    when = dice.choice((1, 1, 2, 3, dice.randint(1, 12), dice.randint(1, 200)))
    inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={when}"]
    subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", *inject, *words],
                   cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # fmt: skip
    return f"{call} {when}"


def kill(
    words: Sequence[str | Path], dice: random.Random, directory: Path, normal: Normal, count: Callable[[], int]
) -> str:
    """Starts a program in a directory and kills it, if it does not end before; returns the moment in words."""
    kind = dice.randrange(3)
    if kind == 0 and tools.find("strace"):
        return _by_call(words, dice, directory)
    process = subprocess.Popen(
        [str(word) for word in words], cwd=directory,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    begin = time.monotonic()
    if kind == 1:
        seconds = dice.uniform(0, 1.1 * normal.seconds)
        time.sleep(seconds)
        moment = f"after {seconds:.4f} s"
    else:
        wanted = count() + int(dice.uniform(0, normal.written))
        # The time ends the look at a program that writes less than the first did.
        while process.poll() is None and count() < wanted and time.monotonic() - begin < 60:
            time.sleep(LOOK_SECONDS)
        moment = f"after {wanted} bytes"
    process.kill()
    process.wait()
    return moment
