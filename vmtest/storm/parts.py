"""The parts of the storm. Each compares runs under the library with a plain run, or with expected results."""

import random
import time
from pathlib import Path

from . import left
from .run import EXACT, PLAIN, SMALL, Library, Ran, first_difference, run

# The kernel does not merge a mapping for which huge pages were requested with an adjacent one for which they were not.
# The difference is visible: two adjacent attachments count as two, and mremap of both returns EFAULT.
MERGED = f"{SMALL},huge=never"


class Results:
    """Counts successes and prints failures."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def record(self, name: str, wrong: str) -> bool:
        """Records a result; `wrong` describes a failure and is empty for a success."""
        if wrong:
            self.failed += 1
            print(f"FAIL {name}\n{wrong}", flush=True)
        else:
            self.passed += 1
        return not wrong


def _same(plain: Ran, other: Ran) -> str:
    if plain.status != other.status:
        tail = "\n".join(other.output.splitlines()[-12:])
        return f"    plain: {plain.ended}; with the library: {other.ended}\n{tail}"
    return "" if plain.output == other.output else first_difference(plain.output, other.output)


def _good(ran: Ran) -> str:
    return "" if ran.status == 0 else f"    {ran.ended}\n" + "\n".join(ran.output.splitlines()[-12:])


def old(program: Path, library: Path, seed: int, results: Results) -> None:
    """A kernel whose madvise cannot populate."""
    steps, more = ("denied", "one", seed, 800, 1), [("STORM_EXACT", "1")]
    plain = run(program, PLAIN, *steps, more=more)
    results.record(f"without MADV_POPULATE, plain, seed {seed}", _good(plain))
    other = run(program, Library(library, EXACT), *steps, more=more)
    results.record(f"without MADV_POPULATE, seed {seed}", _same(plain, other))


def one(program: Path, library: Path, seed: int, results: Results) -> None:
    """One thread: with two policies, and as a user who may lock little memory."""
    steps = ("one", seed, 1500, 2)
    for name, policy, more in (
        ("exact", EXACT, [("STORM_EXACT", "1")]),
        ("default", MERGED, []),
        ("locked memory limited", EXACT, [("STORM_LIMIT_LOCK", "1048576")]),
    ):
        plain = run(program, PLAIN, *steps, more=more)
        results.record(f"one thread, plain, seed {seed}", _good(plain))
        other = run(program, Library(library, policy), *steps, more=more)
        results.record(f"one thread, {name}, seed {seed}", _same(plain, other))


def many(program: Path, library: Path, seed: int, results: Results) -> None:
    """Many threads, each of which must behave as if alone."""
    steps = ("many", seed, 600, 6)
    results.record(f"threads, seed {seed}", _same(run(program, PLAIN, *steps), run(program, Library(library, MERGED), *steps)))


def together(program: Path, library: Path, seed: int, results: Results) -> None:
    """Processes and threads on the same segments."""
    results.record(f"together, seed {seed}", _good(run(program, Library(library, SMALL), "together", seed, 3, 4, 150)))


def signals(program: Path, library: Path, seed: int, results: Results) -> None:
    """Signals before, in and after calls."""
    results.record(f"signals, seed {seed}", _good(run(program, Library(library, SMALL), "signals", seed, 200)))


STORMS = (one, old, many, together, signals)


def storms(program: Path, library: Path, seconds: float, seed: int | None, results: Results) -> int:
    """Runs seeds until the time is over, each part at least once; returns the number of seeds."""
    began, count = time.monotonic(), 0
    first = seed if seed is not None else random.randrange(1 << 32)
    print(f"storms from seed {first} on", flush=True)
    while count == 0 or time.monotonic() - began < seconds:
        for storm in STORMS:
            storm(program, library, first + count, results)
            # Segments of the processes that were killed on purpose.
            left.remove_segments()
        count += 1
    return count
