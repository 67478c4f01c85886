"""The result of a judge: the number of comparisons, and the first differences.

A judge that prints only "OK" may have compared nothing. A verdict therefore carries counts, and does not pass without
any.
"""

from __future__ import annotations

import sys
from collections import Counter

SHOWN = 10


class CannotJudge(Exception):
    """A program or file needed for a comparison is not available.

    This is neither agreement nor disagreement: exit code 3, and a skipped row.
    """

    def finish(self) -> int:
        """Prints the reason; returns the exit code."""
        print(f"SKIP {self}", file=sys.stderr)
        return 3


class Verdict:
    """Counts and differences of one comparison."""

    def __init__(self, judge: str) -> None:
        self.judge = judge
        self.counts: Counter[str] = Counter()
        self.notes: list[str] = []
        self.differences: list[str] = []
        self.difference_count = 0

    def count(self, what: str, number: int = 1) -> None:
        """Adds to the number of things compared."""
        self.counts[what] += number

    def note(self, text: str) -> None:
        """Records information that is not a difference."""
        self.notes.append(text)

    def differ(self, text: str, number: int = 1) -> None:
        """Records a difference; only the first few texts are kept."""
        self.difference_count += number
        if len(self.differences) < SHOWN:
            self.differences.append(text)

    def require(self, holds: bool, text: str) -> bool:
        """Checks one rule: counts it, and records a difference if it does not hold."""
        self.count("rules")
        if not holds:
            self.differ(text)
        return holds

    def merge(self, other: Verdict) -> None:
        """Adds the counts and differences of another verdict."""
        self.counts.update(other.counts)
        self.notes.extend(other.notes)
        room = SHOWN - len(self.differences)
        self.differences.extend(other.differences[:room])
        self.difference_count += other.difference_count

    @property
    def passed(self) -> bool:
        return self.difference_count == 0 and any(self.counts.values())

    def summary(self) -> str:
        """Returns one line: the verdict and the counts."""
        counts = ", ".join(f"{number} {what}" for what, number in self.counts.items())
        word = "OK" if self.passed else "FAIL"
        return f"{word} {self.judge}: {counts or 'nothing compared'}"

    def explain(self, shown: int = SHOWN) -> list[str]:
        """Returns the differences, one line each, and the number of those not shown."""
        lines = self.differences[:shown]
        hidden = self.difference_count - len(lines)
        if hidden > 0:
            lines.append(f"… and {hidden} more")
        return lines

    def finish(self) -> int:
        """Prints the verdict; returns the exit code."""
        print(self.summary())
        for line in self.notes:
            print(f"  note: {line}")
        for line in self.explain():
            print(f"  {line}")
        sys.stdout.flush()
        return 0 if self.passed else 1
