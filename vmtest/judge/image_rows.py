"""Rows of the matrix: the vmcore's memory in formats that no kernel writes, as sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import crash_text
import relay
from case import FULL, Case, Row
from elfcore import ElfCore
from verdict import Verdict

# Commands that do not depend on the registers, which crash takes from other places.
CRASH_COMMANDS = ("sys", "log", "kmem -i", "kmem -s", "mod")


def image_rows(case: Case, vmlinux: Path | None) -> Iterator[Row]:
    """sadump on one partition and on a disk set, and LiME's format, each dumped at level 31."""

    def disks(count: int) -> list[Path]:
        made = [case.scratch / f"disk-{number}" for number in range(count)]
        relay.sadump(ElfCore(case.vmcore), made)
        return made

    def judged(source: list[Path]) -> Verdict:
        case.bigiron.dump(source, case.target, FULL, "lzo")
        return case.judge(case.target, FULL)

    def of_lime() -> Verdict:
        made = case.scratch / "lime"
        relay.lime(ElfCore(case.vmcore), made)
        return judged([made])

    def by_crash() -> Verdict:
        """Judges the writer of sadump: crash reads the same from it as from the vmcore."""
        (disk,) = disks(1)
        return crash_text.judge(str(vmlinux), str(disk), str(case.openable), CRASH_COMMANDS)

    if case.crashed or ElfCore(case.vmcore).machine != 62:
        return
    yield "source: sadump of one partition", lambda: judged(disks(1))
    yield "source: sadump of three disks", lambda: judged(disks(3))
    yield "source: LiME", of_lime
    if vmlinux:
        yield "crash on sadump", by_crash
