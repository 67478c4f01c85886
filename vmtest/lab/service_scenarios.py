"""The scenarios of vmtest/service-first, and their judges."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import crash_text
import drgn_live
from tools import Bigiron
from verdict import Verdict

from . import kernels, tools
from .errors import Unavailable
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


def _opened_by_others(verdict: Verdict, ran: Serviced, bigiron: Bigiron, saved: Path) -> None:
    """Judges that drgn opens what `zstd -d` makes of a vmdump, and crash what bigiron makes of it."""
    kernel = kernels.get(ran.plan.series)
    try:
        vmlinux = kernels.debug_symbols(kernel)
    except Unavailable as error:
        print(f"    drgn and crash are skipped: {error}")
        return
    core, kdump = ran.work / "core", ran.work / "kdump"
    tools.run(["zstd", "-q", "-d", "-f", saved, "-o", core])
    verdict.merge(drgn_live.judge(vmlinux, core, kernel.release))
    bigiron.dump(saved, kdump, 31, "lzo")
    [answers] = crash_text.run(str(vmlinux), [str(kdump)], ("sys", "log"))
    if verdict.require(answers.opened, f"crash does not open it: {' / '.join(answers.start_up)[:300]}"):
        found = any("marker before panic 1" in line for line in answers.commands["log"])
        verdict.require(found, "crash does not find the marker in the log")


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
    _opened_by_others(verdict, ran, bigiron, saved)
    _has(verdict, ran, "the kernel was started this way")
    _has(verdict, ran, "so reboot")
    return verdict


def _both_saved(verdict: Verdict, ran: Serviced, bigiron: Bigiron) -> None:
    """Judges that the dumps of two crashes were saved, each with its own log."""
    for name, number, panic in (("first", 0, 1), ("second", 1, 2)):
        summary = ran.ran(name).get("summary") or {}
        verdict.require(summary.get("complete") is True, f"{name}: not saved: {summary}\n{ran.tail()}")
        dump = ran.saved(f"vmdump.{number}")
        verdict.require(bigiron.verify(dump) == 0, f"{name}: bigiron verify fails")
        _log_has(verdict, bigiron, dump, f"marker before panic {panic}")


def unsaved(ran: Serviced, bigiron: Bigiron) -> Verdict:
    """Judges that the first dump was kept, and the second went elsewhere."""
    verdict = Verdict("unsaved")
    _boots(verdict, ran, 3)
    _has(verdict, ran, "was never saved")
    _has(verdict, ran, "trying /dev/vdb")
    _both_saved(verdict, ran, bigiron)
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
    verdict.require(_status(ran, "forbidden") == 0, f"forbidden: exit status {_status(ran, 'forbidden')}\n{ran.tail()}")
    _has(verdict, ran, "kexec_load is not allowed")
    verdict.require(bigiron.verify(ran.dump_disk) == 0, "bigiron verify fails on the disk")
    return verdict


def sizes(ran: Serviced, bigiron: Bigiron) -> Verdict:
    """Judges that a kernel which keeps other memory is not started."""
    verdict = Verdict("sizes")
    _boots(verdict, ran, 1)
    verdict.require(_status(ran, "sizes") == 0, f"exit status {_status(ran, 'sizes')}\n{ran.tail()}")
    _has(verdict, ran, "the crashed kernel was started without memmap=64M")
    return verdict


def damaged(ran: Serviced, bigiron: Bigiron) -> Verdict:
    """Judges what is said of a dump whose memory changed: found, named, and never taken for a whole one."""
    verdict = Verdict("damaged")
    _boots(verdict, ran, 2)
    for name, status in (("whole", 0), ("flipped", 1), ("restored", 0)):
        verdict.require(_status(ran, name) == status, f"{name}: exit status {_status(ran, name)}\n{ran.tail()}")
    saved = {name: ran.ran(name).get("summary") or {} for name in ("kept", "half", "cleared")}
    verdict.require(saved["half"].get("complete") is False, f"half a dump is taken for a whole one: {saved['half']}")
    verdict.require(saved["cleared"].get("found") is False, f"a dump in cleared memory: {saved['cleared']}")
    flipped = ran.saved("vmdump.0")
    verdict.require(bigiron.verify(flipped) == 1, "bigiron verify does not find the flipped bits in the copy")
    # The rest can be read.
    _log_has(verdict, bigiron, flipped, "marker before panic 1")
    return verdict


def interrupted(ran: Serviced, bigiron: Bigiron) -> Verdict:
    """Judges that a crash during the save neither loses nor doubles a dump."""
    verdict = Verdict("interrupted")
    _boots(verdict, ran, 3)
    _has(verdict, ran, "was never saved")
    again = ran.ran("again").get("summary") or {}
    verdict.require(again.get("found") is False, f"saved again: {again}")
    _both_saved(verdict, ran, bigiron)
    return verdict


def died(ran: Serviced, bigiron: Bigiron) -> Verdict:
    """Judges that a capture kernel that hangs leaves the reason, and its watchdog brings production back."""
    verdict = Verdict("died")
    _boots(verdict, ran, 2)
    summary = ran.ran("save").get("summary") or {}
    verdict.require(summary.get("complete") is False, f"not saved as an incomplete dump: {summary}\n{ran.tail()}")
    verdict.require(summary.get("mark_cleared") is True, f"the mark is not cleared: {summary}")
    report = ran.saved("report.0").read_bytes()
    verdict.require(b"marker before panic 1" in report, "the report lacks the end of the kernel log")
    verdict.require(b"sysrq triggered crash" in report.partition(b"\n")[0], "the report lacks the panic")
    return verdict


def smallest(ran: Serviced, bigiron: Bigiron) -> Verdict:
    """Judges the dump and the way back of the smallest initramfs; prints the time that its first process takes to the
    dump."""
    verdict = Verdict("smallest")
    _boots(verdict, ran, 2)
    save = ran.ran("save").get("summary") or {}
    verdict.require(save.get("complete") is True, f"not saved: {save}\n{ran.tail()}")
    saved = ran.saved("vmdump.0")
    verdict.require(bigiron.verify(saved) == 0, "bigiron verify fails")
    _log_has(verdict, bigiron, saved, "marker before panic 1")
    first, dump = (ran.seen(text) for text in ("Run /init as init process", "bigiron: dumping /proc/vmcore"))
    if verdict.require(first is not None and dump is not None, "the console lacks the first process or the dump"):
        print(f"    first process to dump: {dump - first:.2f} s")
    return verdict


def other_cpu(ran: Serviced, bigiron: Bigiron) -> Verdict:
    """Judges the start of production after a crash on a CPU that is not the firmware's."""
    verdict = Verdict("other-cpu")
    _boots(verdict, ran, 2)
    _has(verdict, ran, "the production kernel does without it until the next reboot")
    save = ran.ran("save").get("summary") or {}
    verdict.require(save.get("complete") is True, f"not saved: {save}\n{ran.tail()}")
    # Those of production, between which is the capture kernel.
    cpus = [record["cpus"] for record in ran.records if "boot" in record]
    verdict.require(cpus == [3, 2], f"the production kernels have {cpus} CPUs\n{ran.tail()}")
    return verdict


def arm64(ran: Serviced, bigiron: Bigiron) -> Verdict:
    """Judges two dumps that waited in memory kept by the device tree: through a reset, and through a kexec."""
    verdict = Verdict("arm64")
    _boots(verdict, ran, 3)
    for name in ("disk-reset", "memory-reset", "check", "disk", "memory-kexec"):
        verdict.require(_status(ran, name) == 0, f"{name} failed: {ran.ran(name)}\n{ran.tail()}")
    for name in ("save", "save-direct"):
        save = ran.ran(name).get("summary") or {}
        verdict.require(save.get("complete") is True and save.get("mark_cleared") is True, f"not saved: {save}\n{ran.tail()}")
    for number in (0, 1):
        saved = ran.saved(f"vmdump.{number}")
        verdict.require(bigiron.verify(saved) == 0, f"bigiron verify fails on dump {number}")
        _log_has(verdict, bigiron, saved, f"marker before panic {number + 1}")
    _same_pages(verdict, bigiron, ran.saved("vmdump.0"), ran.saved("disk/vmdump.0"))
    return verdict


SCENARIOS = (
    Scenario("direct", "panic, dump in memory, production kernel by kexec with all its memory, saved once; second crash", Plan("direct"), direct),
    Scenario("direct-6.12", "the same with Linux 6.12", Plan("direct", series="6.12"), direct),
    Scenario(
        "other-cpu", "a crash on another CPU than the firmware's: production starts without the latter",
        Plan("direct", cpus=3, words="vmtest.crash-cpu=1"), other_cpu,
    ),
    Scenario(
        "other-cpu-6.12", "the same with Linux 6.12",
        Plan("direct", series="6.12", cpus=3, words="vmtest.crash-cpu=1"), other_cpu,
    ),
    Scenario("unsaved", "a second crash before the first dump is saved: both dumps are kept", Plan("unsaved"), unsaved),
    # Without KASLR: a kernel at a random place may leave no room for the crash kernel but where the capture kernel's
    # memmap= is.
    Scenario(
        "refused", "a production kernel without memmap=: its memory is not written to",
        Plan("refused", kept="", words="nokaslr"), refused,
    ),
    Scenario(
        "kinds", "crashes of hardware, a missing kernel, too little room, other data on the device",
        Plan("kinds", kept="memmap=64M!0x20000000", capture_kept="memmap=64M!0x20000000", cached_mib=96), kinds,
    ),
    Scenario(
        "sizes", "a production kernel that keeps other memory than the capture kernel",
        Plan("sizes", capture_kept="memmap=64M!0x20000000"), sizes,
    ),
    Scenario("damaged", "flipped bits in the kept memory, and memory that was cleared", Plan("damaged"), damaged),
    Scenario(
        "interrupted", "a second crash while the first dump is saved: none is lost, none is saved twice",
        Plan("interrupted", drive="cache=unsafe,throttling.bps-write=2000000"), interrupted,
    ),
    Scenario(
        "smallest", "the image of packaging/capture/make-initramfs: dump in memory, and production by kexec",
        Plan("smallest", image="-d 31 -f vmdump --then-boot auto"), smallest,
    ),
    Scenario(
        "arm64", "arm64: memory kept by the device tree; a dump in it survives a reset, and a kexec by kexec-tools",
        Plan(
            "arm64", series="6.12", architecture="arm64", kept_range=(0x6000_0000, 128 << 20), kept="vmtest.kept mem=512M",
            capture_kept="vmtest.kept", modules=("of_pmem",), reboots=True, timeout=400,
            # With LPA2 and five levels, kexec_load of 6.12 faults in trans_pgd_create_copy().
            devices=("-cpu", "max,pauth-impdef=on,lpa2=off"),
        ), arm64,
    ),
    Scenario(
        "died", "a capture kernel that hangs: the watchdog resets the machine, and the reason is in memory",
        Plan(
            "died", series="6.12", reboots=True, modules=("watchdog", "i6300esb"),
            devices=("-device", "i6300esb", "-action", "watchdog=reset"),
        ), died,
    ),
)  # fmt: skip
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
