"""The scenarios of vmtest/service-first, and their judges."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools import Bigiron
from verdict import Verdict

from .service import Plan, Serviced


@dataclass(frozen=True)
class Scenario:
    """One guest and its judge."""

    name: str
    shows: str
    plan: Plan
    judge: Callable[[Serviced, Bigiron], Verdict]


def _status(ran: Serviced, name: str) -> object:
    return ran.ran(name).get("status")


def _has(verdict: Verdict, ran: Serviced, text: str) -> None:
    verdict.require(ran.printed(text), f"the console lacks {text!r}\n{ran.tail()}")


def _same_pages(verdict: Verdict, bigiron: Bigiron, one: Path, other: Path) -> None:
    """Judges that two dumps have the same pages."""
    ended = subprocess.run([bigiron.program, "diff", one, other], capture_output=True, text=True, check=False)
    verdict.require(ended.returncode == 0, f"the dumps differ: {ended.stdout}{ended.stderr}")


def _log_has(verdict: Verdict, bigiron: Bigiron, dump: Path, text: str) -> None:
    verdict.require(text.encode() in bigiron.log(dump), f"{dump.name}: its kernel log lacks {text!r}")


def _boots(verdict: Verdict, ran: Serviced, count: int) -> None:
    """Judges the number of production kernels, and that each had all the memory."""
    totals = [record["total_kib"] for record in ran.records if "boot" in record]
    verdict.require(len(totals) == count, f"{len(totals)} production kernels, not {count}\n{ran.tail()}")
    # The place of the kernel is random, and with it what is left.
    even = bool(totals) and max(totals) - min(totals) < totals[0] // 100
    verdict.require(even, f"the production kernels have different memory: {totals} KiB")


def direct(ran: Serviced, bigiron: Bigiron) -> Verdict:
    """Judges a dump that waited in memory: equal to that on the disk, saved once; and the second crash."""
    verdict = Verdict("direct")
    _boots(verdict, ran, 2)
    verdict.require(_status(ran, "disk") == 0, f"no dump on the disk\n{ran.tail()}")
    verdict.require(_status(ran, "check") == 0, f"the dump in memory fails verify: {ran.ran('check')}")
    save, again = (ran.ran(name).get("summary") or {} for name in ("save", "again"))
    verdict.require(save.get("complete") is True and save.get("mark_cleared") is True, f"not saved: {save}\n{ran.tail()}")
    verdict.require(again.get("found") is False, f"saved again: {again}")
    saved = ran.saved("vmdump.0")
    verdict.require(bigiron.verify(saved) == 0, "bigiron verify fails")
    _same_pages(verdict, bigiron, saved, ran.dump_disk)
    _log_has(verdict, bigiron, saved, "marker before panic 1")
    _has(verdict, ran, "the kernel was started this way")
    _has(verdict, ran, "so reboot")
    return verdict


def unsaved(ran: Serviced, bigiron: Bigiron) -> Verdict:
    """Judges that the first dump was kept, and the second went elsewhere."""
    verdict = Verdict("unsaved")
    _boots(verdict, ran, 3)
    _has(verdict, ran, "was never saved")
    _has(verdict, ran, "trying /dev/vdb")
    for name, number, panic in (("first", 0, 1), ("second", 1, 2)):
        summary = ran.ran(name).get("summary") or {}
        verdict.require(summary.get("complete") is True, f"{name}: not saved: {summary}\n{ran.tail()}")
        dump = ran.saved(f"vmdump.{number}")
        verdict.require(bigiron.verify(dump) == 0, f"{name}: bigiron verify fails")
        _log_has(verdict, bigiron, dump, f"marker before panic {panic}")
    return verdict


def refused(ran: Serviced, bigiron: Bigiron) -> Verdict:
    """Judges that memory of the crashed kernel is neither written to nor handed to the next kernel."""
    verdict = Verdict("refused")
    _boots(verdict, ran, 1)
    verdict.require(_status(ran, "dump") == 1, f"exit status {_status(ran, 'dump')}\n{ran.tail()}")
    _has(verdict, ran, "is memory of the kernel that crashed")
    verdict.require(_status(ran, "then") == 0, f"exit status {_status(ran, 'then')}\n{ran.tail()}")
    _has(verdict, ran, "the crashed kernel was started without memmap=")
    verdict.require(bigiron.verify(ran.dump_disk) == 0, "bigiron verify fails on the disk")
    _log_has(verdict, bigiron, ran.dump_disk, "marker before panic 1")
    return verdict


def kinds(ran: Serviced, bigiron: Bigiron) -> Verdict:
    """Judges the ways that end at the firmware, and a dump that does not fit."""
    verdict = Verdict("kinds")
    _boots(verdict, ran, 1)
    for name, status in (("kind", 0), ("missing", 0), ("small", 0), ("claimed", 1)):
        verdict.require(_status(ran, name) == status, f"{name}: exit status {_status(ran, name)}\n{ran.tail()}")
    _has(verdict, ran, "without a reset by the firmware")
    _has(verdict, ran, "has no vmlinuz-")
    _has(verdict, ran, "trying -d 1")
    _has(verdict, ran, "trying /dev/vdb")
    _has(verdict, ran, "there is something on it: swap")
    verdict.require(bigiron.verify(ran.dump_disk) == 0, "bigiron verify fails on the disk")
    return verdict


SCENARIOS = (
    Scenario("direct", "panic, dump in memory, production kernel by kexec with all its memory, saved once; second crash", Plan("direct"), direct),
    Scenario("direct-6.12", "the same with Linux 6.12", Plan("direct", series="6.12"), direct),
    Scenario("unsaved", "a second crash before the first dump is saved: both dumps are kept", Plan("unsaved"), unsaved),
    Scenario("refused", "a production kernel without memmap=: its memory is not written to", Plan("refused", kept=""), refused),
    Scenario(
        "kinds", "crashes of hardware, a missing kernel, too little room, other data on the device",
        Plan("kinds", kept="memmap=64M!0x20000000", capture_kept="memmap=64M!0x20000000", cached_mib=96), kinds,
    ),
)  # fmt: skip
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
