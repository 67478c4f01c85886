"""Tests whether bigiron's mount makes taking CPUs offline slower: many rounds, with confidence intervals."""

import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import kernels
from lab.errors import LabError

from . import measure

# No export; a mount that is not read; a mount from which one file is read per second.
CASES = tuple((shown, "loop") for shown in ("none", "mount", "file"))
# Rounds of a guest: the maximum that fits in its trace buffer.
ROUNDS = 10
SECONDS = 600
REBUILD = "partition_sched_domains_locked"
WHOLE = {"down": "_cpu_down", "up": "_cpu_up"}
COMMAND_LINES = {"6.1": "debugfs=off", "6.12": ""}
# Quantile of the fastest calls. Interruptions only make calls longer, so the fastest tenth was hardly interrupted.
QUICK = 0.1
RESAMPLES = 2000


@dataclass
class Round:
    """One round: a way to show domains, and a direction."""

    seconds: float
    # Milliseconds of each call, in the order of CPUs.
    calls: dict[str, list[float]] = field(default_factory=dict)


# By (shown, way), in the order of execution.
Rounds = dict[tuple[str, str], list[Round]]


def _guest(series: str, programs: Mapping[str, Path]) -> Rounds:
    boot = measure.Boot("mounts", series, COMMAND_LINES[series], CASES, ROUNDS)
    rounds: Rounds = defaultdict(list)
    for span in measure.traced(boot, measure.CPUS, programs, SECONDS)[1]:
        shown, _, way = span.words
        if way not in WHOLE:
            continue
        names = (REBUILD, WHOLE[way])
        calls = {name: [round(value, 4) for value in span.calls.get(name, [])] for name in names}
        rounds[shown, way].append(Round(round(span.seconds, 4), calls))
    return rounds


def _guests(series: str, count: int, programs: Mapping[str, Path]) -> Rounds:
    everything: Rounds = defaultdict(list)
    for number in range(count):
        print(f"{series}: guest {number + 1} of {count}", file=sys.stderr, flush=True)
        try:
            for key, rounds in _guest(series, programs).items():
                everything[key].extend(rounds)
        except LabError as error:
            # Emulated guests sometimes hang.
            print(f"{series}: guest omitted: {str(error)[:200]}", file=sys.stderr)
    return everything


def run(series: Sequence[str], count: int, programs: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Runs all rounds of `count` guests of each kernel. Guests of two kernels run concurrently; each guest uses one
    thread."""
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda one: _guests(one, count, programs), series))
    return [
        {
            "kernel": kernels.get(name).release,
            "command_line": COMMAND_LINES[name],
            "cpus": measure.CPUS,
            "rows": [
                {"shown": shown, "way": way, "rounds": [vars(one) for one in all_of]}
                for (shown, way), all_of in rounds.items()
            ],
        }
        for name, rounds in zip(series, found)
    ]


def _quick(rounds: Sequence[dict[str, Any]], name: str) -> float:
    """Returns the duration of a round's calls without interruptions: the sum over CPUs of the first decile of all
    rounds."""
    by_cpu = zip(*(round["calls"][name] for round in rounds))
    return sum(sorted(calls)[int(len(calls) * QUICK)] for calls in by_cpu)


def _mean(rounds: Sequence[dict[str, Any]]) -> float:
    return statistics.fmean(round["seconds"] for round in rounds)


def _interval(
    of: Callable[[Sequence[dict[str, Any]]], float], many: Sequence[dict[str, Any]], few: Sequence[dict[str, Any]]
) -> tuple[float, float, float]:
    """Returns a ratio and its 95 per cent confidence interval; adjacent rounds are resampled together."""
    chance = random.Random(1)
    count = min(len(many), len(few))
    drawn = []
    for _ in range(RESAMPLES):
        places = [chance.randrange(count) for _ in range(count)]
        drawn.append(of([many[place] for place in places]) / of([few[place] for place in places]))
    drawn.sort()
    return of(many[:count]) / of(few[:count]), drawn[len(drawn) // 40], drawn[-len(drawn) // 40]


def figures(boots: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yields ratios to rounds without a mount."""
    for boot in boots:
        rows = {(row["shown"], row["way"]): row["rounds"] for row in boot["rows"]}
        yield f"\n{boot['kernel']} ({boot['command_line'] or 'sched/verbose N'})"
        yield f"{'':30}{'':6}{'rounds':>7}   {REBUILD:32}{'one CPU':26}whole operation, mean"
        for way in ("down", "up"):
            none = rows["none", way]
            pairs = [("no mount, next round", none[1:], none[:-1])]
            pairs += [(f"with a mount, {use}", rows[shown, way], none) for shown, use in (("mount", "not read"), ("file", "read"))]
            for name, many, few in pairs:
                ratios = [_interval(lambda rounds, name=name: _quick(rounds, name), many, few) for name in (REBUILD, WHOLE[way])]
                ratios.append(_interval(_mean, many, few))
                cells = [f"{ratio:.3f} ({low:.3f} to {high:.3f})" for ratio, low, high in ratios]
                yield f"{name:30}{way:6}{min(len(many), len(few)):>7}   {cells[0]:32}{cells[1]:26}{cells[2]}"
