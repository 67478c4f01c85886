"""Kills each operation many times: after each kill and each next run, nothing readable is lost."""

import random
import shutil
import time
from pathlib import Path

from lab.errors import LabError
from storm.parts import Results

from . import killing
from .victims import Victim, World, all_victims, digest


def _normal(name: str, victim: Victim) -> killing.Normal:
    """Runs an operation without a kill."""
    victim.reset()
    before, begin = killing.written(victim.outputs), time.monotonic()
    wrong = victim.next_run()
    if wrong:
        raise LabError(f"{name}, not killed: {wrong}")
    return killing.Normal(time.monotonic() - begin, max(killing.written(victim.outputs) - before, 1))


def kills(bigiron: Path, core: Path, work: Path, count: int, seed: int, only: frozenset[str], results: Results) -> str:
    """Kills operations `count` times in all; returns a line for each operation."""
    world = World(bigiron, core)
    victims = {name: one for name, one in all_victims(world, work).items() if not only or name in only}
    original = digest(core)
    normal = {name: _normal(name, victim) for name, victim in victims.items()}
    done = dict.fromkeys(victims, 0)
    for number in range(count):
        name = list(victims)[number % len(victims)]
        victim, dice = victims[name], random.Random(f"{seed}/{number}")
        victim.reset()
        moments = []
        # Every third kill is followed by another one.
        for _ in range(1 + (dice.randrange(3) == 0)):
            words = [bigiron, *victim.words]
            moments.append(
                killing.kill(words, dice, victim.directory, normal[name], lambda: killing.written(victim.outputs))
            )
            wrong = victim.holds()
            if wrong:
                break
        title = f"kill {number} (seed {seed}) of {name}, {', then '.join(moments)}"
        if results.record(title, f"    {wrong}" if wrong else ""):
            wrong = victim.next_run()
            results.record(title, f"    {wrong}" if wrong else "")
        done[name] += len(moments)
        if digest(core) != original:
            raise LabError(f"{title}: the source of all dumps has changed")
    for victim in victims.values():
        shutil.rmtree(victim.directory, ignore_errors=True)
    return "\n".join(f"{name:15} {times:5} kills" for name, times in done.items())
