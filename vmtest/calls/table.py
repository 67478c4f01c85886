"""The final report: a table, and the programs that differed."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from .compare import Judged, Verdict

_HEAD = ("suite", "programs", "run", "same", "any library", "flaky", "different", "cannot run", "fail plainly")


def _row(name: str, judged: Sequence[Judged]) -> tuple[str, ...]:
    counts = Counter(one.verdict for one in judged)
    run = len(judged) - counts[Verdict.NOT_RUN]
    failing = sum(one.verdict is not Verdict.NOT_RUN and not one.passes for one in judged)
    numbers = (len(judged), run, counts[Verdict.SAME], counts[Verdict.ANY_LIBRARY], counts[Verdict.FLAKY],
               counts[Verdict.DIFFERENT], counts[Verdict.NOT_RUN], failing)  # fmt: skip
    return (name, *map(str, numbers))


def table(judged: Sequence[Judged]) -> str:
    """Returns one line for each suite, and one for the total."""
    suites: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        suites[one.built.program.suite].append(one)
    rows = [_HEAD, *(_row(name, suites[name]) for name in suites), _row("all", judged)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(row, widths)))
        for row in rows
    ]  # fmt: skip
    return "\n".join(lines)


def named(judged: Sequence[Judged], verdict: Verdict) -> list[str]:
    """Returns the programs with a verdict, with their reasons."""
    return [
        f"{verdict.value}: {one.built.program.suite} {one.built.program.name}: {one.why}"
        for one in judged
        if one.verdict is verdict
    ]


def reasons(judged: Sequence[Judged]) -> list[str]:
    """Returns the reasons why programs cannot run, most frequent first."""
    counts = Counter(one.why for one in judged if one.verdict is Verdict.NOT_RUN)
    return [f"{count:5} {why}" for why, count in counts.most_common()]
