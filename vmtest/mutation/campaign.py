"""Runs cases on two processors, and prints failures and a table."""

import itertools
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import case
from .case import Result, Stock
from .formats import FORMATS, Format

AT_ONCE = 2
# More failures of one kind are only counted.
SHOWN = 3


@dataclass
class Totals:
    """The sums of a campaign."""

    cases: int = 0
    runs: int = 0
    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    slowest: dict[str, tuple[float, str]] = field(default_factory=dict)
    largest: dict[str, tuple[int, str]] = field(default_factory=dict)
    failed: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        """Adds the result of a case, and prints its first failures of each kind."""
        self.cases += 1
        self.runs += len(result.runs)
        for name, status, seconds, memory in result.runs:
            self.statuses.setdefault(name, Counter())[status] += 1
            self.slowest[name] = max(self.slowest.get(name, (0.0, "")), (seconds, result.case))
            self.largest[name] = max(self.largest.get(name, (0, "")), (memory, result.case))
        for name, text in result.failures:
            self.failed[name] += 1
            # Without numbers, so that one defect counts as one kind.
            kind = (name, "".join(letter for letter in text.splitlines()[0] if not letter.isdigit()))
            self.kinds[kind] += 1
            if self.kinds[kind] <= SHOWN:
                print(f"FAIL {result.case} {name}: {text}\n    changes: {'; '.join(result.said)}", flush=True)

    def table(self) -> str:
        """Returns a line for each command."""
        lines = [f"{'command':15} {'runs':>7} {'done':>7} {'refused':>7} {'failed':>7} {'most CPU':>9} {'most memory':>11}"]
        for name, statuses in sorted(self.statuses.items()):
            seconds, memory = self.slowest[name][0], self.largest[name][0] >> 20
            lines.append(
                f"{name:15} {statuses.total():7} {statuses[0]:7} {statuses.total() - statuses[0]:7} {self.failed[name]:7} "
                f"{seconds:7.2f} s {memory:7} MiB"
            )
        lines += [f"{count:5} times: {name}: {text}" for (name, text), count in self.kinds.most_common() if count > SHOWN]
        return "\n".join(lines)


def names(first: int, wanted: list[Format]) -> Iterator[str]:
    """Returns the names of cases without end: each number chooses a format."""
    weights = [one.weight for one in wanted]
    for number in itertools.count(first):
        (one,) = random.Random(number).choices(wanted, weights)
        yield f"{one.name}/{number}"


_stock: Stock
_only: frozenset[str]


def _one(name: str) -> Result:
    return case.run(_stock, name, _only)


def run(stock: Stock, first: int, wanted: list[Format], only: frozenset[str], seconds: float | None, cases: int | None) -> Totals:
    """Runs cases until the time is over or their number is reached."""
    global _stock, _only
    # Inherited by the processes, which are forked.
    _stock, _only = stock, only
    totals = Totals()
    end = time.monotonic() + seconds if seconds is not None else None
    every = names(first, wanted)
    numbered = every if cases is None else itertools.islice(every, cases)
    until = itertools.takewhile(lambda _: end is None or time.monotonic() < end, numbered)
    with multiprocessing.get_context("fork").Pool(AT_ONCE) as pool:
        # In small batches: a pool takes all names of an iterator at once.
        while batch := list(itertools.islice(until, 8 * AT_ONCE)):
            for result in pool.imap_unordered(_one, batch):
                totals.add(result)
    return totals


def formats(only: frozenset[str]) -> list[Format]:
    """Returns the formats among the wanted names, or all."""
    return [one for one in FORMATS if one.name in only] or list(FORMATS)
