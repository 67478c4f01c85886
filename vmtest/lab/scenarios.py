"""The scenarios of vmtest/kdump: kinds of crashes, outputs of dumps, and failures."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import kdump_layout
import same_vmdump
from tools import Bigiron, Makedumpfile
from verdict import Verdict

from .crash import PORT, XFS, Crashed, Disk, Plan

# Logged by the first kernel before it crashes; every dump must contain it.
MARKER = "bigiron-vmtest: marker before the panic"
# Memory limit for the dump in a capture kernel with 256 MB.
MOST_MEMORY = 64 << 20
# Growth of the page cache in a capture kernel during a dump to a disk: file system metadata, and ends of writes.
MOST_CACHED = 4 << 20
# Bytes on the disk at which the power is cut: the dump writes 4 MiB a second, and syncs every two seconds.
POWER_CUT_AFTER = 24 << 20
STALL = 12.0


@dataclass(frozen=True)
class Scenario:
    """One crash and its judge."""

    name: str
    shows: str
    plan: Plan
    judge: Callable[[Crashed, Bigiron], Verdict]
    quick: bool = False  # run by every ./test


def whole_dump(crashed: Crashed, bigiron: Bigiron, dump: Path, verdict: Verdict, panic_text: str) -> Verdict:
    """Judges that the dump is complete, readable by other programs, and shows the panic."""
    ran = crashed.ran("dump")
    verdict.require(ran.get("status") == 0, f"exit status {ran.get('status')}\n{crashed.tail()}")
    summary = ran.get("summary") or {}
    peak = summary.get("peak_memory", 0)
    verdict.require(0 < peak < MOST_MEMORY, f"peak memory {peak} bytes, limit {MOST_MEMORY}")
    verdict.require(summary.get("pages", {}).get("lost") == 0, "lost pages")
    verdict.merge(kdump_layout.judge(dump))
    log = Makedumpfile().log(dump, crashed.work / "log")
    for text in (MARKER, panic_text):
        verdict.require(text in log, f"makedumpfile does not find {text!r} in the dump's kernel log")
    verdict.require(bigiron.verify(dump) == 0, "bigiron verify fails")
    return verdict


def past_page_cache(crashed: Crashed, verdict: Verdict) -> Verdict:
    """Judges that the dump's data was not in the page cache of the capture kernel."""
    written = (crashed.ran("dump").get("summary") or {}).get("bytes_out", 0)
    verdict.require(written > 2 * MOST_CACHED, f"a dump of {written} bytes is too small to tell")
    seen = next((record for record in crashed.records if record.get("page_cache") == "dump"), {})
    for name in ("growth_kib", "dirty_kib"):
        grown = seen.get(name, MOST_CACHED) << 10
        verdict.require(grown < MOST_CACHED, f"page cache: {name} is {grown >> 10}, {written >> 10} KiB were written")
    return verdict


def on_ext4(panic_text: str) -> Callable[[Crashed, Bigiron], Verdict]:
    """Judges a dump on a file system that the host can read."""

    def judge(crashed: Crashed, bigiron: Bigiron) -> Verdict:
        verdict = past_page_cache(crashed, Verdict("dump"))
        return whole_dump(crashed, bigiron, crashed.fetch(0, "vmcore"), verdict, panic_text)

    return judge


def on_disk(place: int) -> Callable[[Crashed, Bigiron], Verdict]:
    """Judges a dump on a disk without a file system; data after the dump does not belong to it."""

    def judge(crashed: Crashed, bigiron: Bigiron) -> Verdict:
        verdict = past_page_cache(crashed, Verdict("dump"))
        return whole_dump(crashed, bigiron, crashed.image(place), verdict, "sysrq")

    return judge


def from_device(crashed: Crashed, bigiron: Bigiron) -> Verdict:
    """Judges a dump that was written to a disk without a file system and saved from there to a file system, once."""
    verdict = past_page_cache(crashed, Verdict("dump"))
    saved, again = (crashed.ran(name).get("summary") or {} for name in ("save", "again"))
    verdict.require(saved.get("complete") is True, f"the dump was not saved: {saved}\n{crashed.tail()}")
    verdict.require(saved.get("mark_cleared") is True, f"the disk's mark was not cleared: {saved}")
    verdict.require(again.get("found") is False, f"the dump was saved again: {again}")
    names = crashed.names(1)
    for name in ("vmdump.0", "dmesg.0", "info.0"):
        verdict.require(name in names, f"no {name}: {names}")
    verdict.require(not any(name.endswith("incomplete") or name == "vmdump.1" for name in names), f"remaining files: {names}")
    dump = crashed.fetch(1, "vmdump.0")
    verdict.require(MARKER in crashed.fetch(1, "dmesg.0").read_text(errors="replace"), "the log was not saved with the dump")
    verdict.require(bigiron.verify(crashed.image(0)) == 0, "bigiron verify fails on the disk")
    return whole_dump(crashed, bigiron, dump, verdict, "sysrq")


def through_port(crashed: Crashed, bigiron: Bigiron) -> Verdict:
    """Judges a flattened dump received through the port."""
    verdict = Verdict("dump")
    verdict.require(bigiron.verify(crashed.received) == 0, "bigiron verify fails for the flattened dump")
    plain = Makedumpfile().rearrange(crashed.received, crashed.work / "plain")
    return whole_dump(crashed, bigiron, plain, verdict, "sysrq")


def whole_vmdump(crashed: Crashed, bigiron: Bigiron, dump: Path) -> Verdict:
    """Judges a vmdump that has left the guest: zstd alone converts it to an ELF core."""
    verdict = Verdict("vmdump")
    ran = crashed.ran("dump")
    verdict.require(ran.get("status") == 0, f"exit status {ran.get('status')}\n{crashed.tail()}")
    peak = (ran.get("summary") or {}).get("peak_memory", 0)
    verdict.require(0 < peak < MOST_MEMORY, f"peak memory {peak} bytes, limit {MOST_MEMORY}")
    verdict.require(bigiron.verify(dump) == 0, "bigiron verify fails for the vmdump")
    core = crashed.work / "core"
    same_vmdump.unpack(dump, core)
    log = Makedumpfile().log(core, crashed.work / "log")
    for text in (MARKER, "sysrq"):
        verdict.require(text in log, f"makedumpfile does not find {text!r} in the unpacked core's kernel log")
    return verdict


def vmdump_through_port(crashed: Crashed, bigiron: Bigiron) -> Verdict:
    """Judges a vmdump received through the port."""
    return whole_vmdump(crashed, bigiron, crashed.received)


def cut_dump(crashed: Crashed, bigiron: Bigiron, verdict: Verdict) -> Verdict:
    """Judges the partial output of a failed dump: it has its temporary name, is marked, and is readable."""
    crashed.repair(0)
    names = crashed.names(0)
    verdict.require("vmcore" not in names, f"an incomplete dump has its final name: {names}")
    if verdict.require("vmcore.incomplete" in names, f"no partial dump was kept: {names}"):
        kept = crashed.fetch(0, "vmcore.incomplete")
        status, report = bigiron.verify_report(kept)
        verdict.require(status == 1, f"bigiron verify exits with {status}, not 1")
        verdict.require(report.get("complete") is False, f"the partial dump is not reported as usable: {report}")
        verdict.require(report.get("pages", 0) > 0, f"no page can be read: {report}")
    return verdict


def failed(status: int, text: str) -> Callable[[Crashed, Bigiron], Verdict]:
    """Judges that the program ended with this status, reported the reason, and kept its partial output."""

    def judge(crashed: Crashed, bigiron: Bigiron) -> Verdict:
        verdict = Verdict("cut dump")
        ran = crashed.ran("dump")
        verdict.require(ran.get("status") == status, f"exit status {ran.get('status')}, not {status}\n{crashed.tail()}")
        verdict.require(crashed.printed(text), f"the output does not contain {text!r}\n{crashed.tail()}")
        return cut_dump(crashed, bigiron, verdict)

    return judge


def power_cut(crashed: Crashed, bigiron: Bigiron) -> Verdict:
    """Judges a power cut: no report is possible, and the file system remains in its state of that moment."""
    verdict = Verdict("cut dump")
    verdict.require(crashed.cut, "the power was not cut")
    verdict.require(not crashed.ran("dump"), "the dump was complete before the power was cut")
    return cut_dump(crashed, bigiron, verdict)


def cut_power_soon(crashed: Crashed) -> None:
    """Cuts the power when the disk has received the bytes of at least two syncs, however long that takes."""
    if not crashed.cut and crashed.seconds_since("dump") >= 0 and crashed.written(0) > POWER_CUT_AFTER:
        crashed.power_cut()


def stall_disk(crashed: Crashed) -> None:
    """Slows the disk to almost zero for a while, from the start of the dump."""
    for name, since, speed in (("stalled", 0.0, 1), ("moving", STALL, 0)):
        if name not in crashed.done and crashed.seconds_since("dump") >= since:
            crashed.write_speed(0, speed)
            crashed.done.add(name)


def stalled(crashed: Crashed, bigiron: Bigiron) -> Verdict:
    """Judges that the stall was reported, and the dump succeeded."""
    verdict = Verdict("stall")
    verdict.require(crashed.printed("no progress for"), f"the stall was not reported\n{crashed.tail()}")
    verdict.require(crashed.printed("/mnt/vmcore"), "the report does not name the disk")
    verdict.require(crashed.printed("progress resumed after"), "the end of the stall was not reported")
    return whole_dump(crashed, bigiron, crashed.fetch(0, "vmcore"), verdict, "sysrq")


def next_level(crashed: Crashed, bigiron: Bigiron) -> Verdict:
    """Judges that the dump has the second level, because the first did not fit."""
    verdict = Verdict("level")
    ran = crashed.ran("dump")
    verdict.require(ran.get("status") == 0, f"exit status {ran.get('status')}\n{crashed.tail()}")
    names = crashed.names(0)
    verdict.require(not any("incomplete" in name for name in names), f"the first attempt remains: {names}")
    dump = crashed.fetch(0, "vmcore")
    verdict.merge(kdump_layout.judge(dump))
    level = kdump_layout.Kdump(dump).dump_level
    verdict.require(level == 31, f"the dump's level is {level}")
    verdict.require(bigiron.verify(dump) == 0, "bigiron verify fails")
    return verdict


def log_only(crashed: Crashed, _: Bigiron) -> Verdict:
    """Judges the kernel's log, printed without a dump."""
    verdict = Verdict("log")
    text = crashed.image(0).read_bytes().rstrip(b"\0").decode(errors="replace")
    for wanted in ("Linux version", MARKER, "sysrq: Trigger a crash"):
        verdict.require(wanted in text, f"vmcore-dmesg does not print {wanted!r}\n{crashed.tail()}")
    return verdict


def report_first(crashed: Crashed, bigiron: Bigiron) -> Verdict:
    """Judges the report that precedes the dump: it is there within a second, and tells of the panic."""
    verdict = Verdict("report")
    ran = crashed.ran("report")
    verdict.require(ran.get("status") == 0, f"exit status {ran.get('status')}\n{crashed.tail()}")
    seconds = ran.get("end", 0.0) - ran.get("begin", 0.0)
    verdict.require(0 <= seconds < 1, f"the report took {seconds:.2f} s")
    report = crashed.fetch(0, "report").read_text(errors="replace")
    line, _, log = report.partition("\n")
    facts = json.loads(line)
    verdict.require("sysrq" in (facts["panic"] or ""), f"the report names the panic {facts['panic']!r}")
    verdict.require(MARKER in log, "the report's log lacks the marker")
    verdict.require(crashed.fetch(0, "first").read_text(errors="replace") == report, "--report-first writes another report")
    return whole_dump(crashed, bigiron, crashed.fetch(0, "vmcore"), verdict, "sysrq")


def with_cpus(crashed: Crashed, bigiron: Bigiron) -> Verdict:
    """Judges that the offline CPU was brought online and took part in the dump."""
    verdict = Verdict("CPUs")
    verdict.require(crashed.printed("CPUs 1 are online now"), f"no CPU was brought online\n{crashed.tail()}")
    helpers = (crashed.ran("dump").get("summary") or {}).get("helpers")
    verdict.require(helpers == 2, f"{helpers} helpers, not 2")
    return whole_dump(crashed, bigiron, crashed.fetch(0, "vmcore"), verdict, "sysrq")


EXT4 = (Disk(256, "ext4"),)
SCENARIOS = [
    Scenario("sysrq-ext4", "panic by sysrq, dump to ext4", Plan("ext4", disks=EXT4), on_ext4("sysrq")),
    Scenario(
        "null-ext4",
        "panic by a jump to address 0",
        Plan("ext4", panic="null", disks=EXT4),
        on_ext4("NULL pointer dereference"),
        quick=True,
    ),
    Scenario(
        "hung-task", "panic by a hung task", Plan("ext4", panic="hung", disks=EXT4), on_ext4("hung_task: blocked tasks")
    ),
    Scenario(
        "nmi",
        "panic by the NMI button",
        Plan("ext4", panic="nmi", disks=EXT4),
        on_ext4("NMI: Not continuing"),
    ),
    Scenario(
        "xfs",
        "dump to XFS",
        Plan("xfs", disks=(Disk(320, "xfs"), Disk(256)), modules=XFS),
        on_disk(1),
    ),
    Scenario(
        "raw",
        "dump to a disk without a file system, saved from there",
        Plan("raw", disks=(Disk(256), Disk(256, "ext4"))),
        from_device,
    ),
    Scenario(
        "port",
        "dump through a pipe to another machine",
        Plan("port", port=True, modules=PORT, environment={"how": "-c lzo"}),
        through_port,
        quick=True,
    ),
    Scenario(
        "port-vmdump",
        "vmdump through a pipe, unpacked by zstd alone",
        Plan("port", port=True, modules=PORT, environment={"how": "-f vmdump"}),
        vmdump_through_port,
        quick=True,
    ),
    Scenario("disk-full", "full disk", Plan("full", disks=(Disk(24, "ext4"),)), failed(1, "os error 28")),
    Scenario(
        "next-level",
        "full disk; a stricter level fits",
        Plan("levels", disks=(Disk(48, "ext4"),)),
        next_level,
    ),
    Scenario("report", "the report before the dump", Plan("report", disks=EXT4), report_first),
    Scenario("log", "only the kernel's log, as vmcore-dmesg", Plan("dmesg", disks=(Disk(4),)), log_only),
    Scenario(
        "write-error",
        "disk error during the dump",
        Plan("error", disks=(Disk(256, "ext4", error_at=40 << 20),)),
        failed(1, "os error 5"),
    ),
    Scenario("sigterm", "dump terminated by SIGTERM", Plan("term", disks=EXT4), failed(143, "interrupted")),
    Scenario(
        "power-cut",
        "power cut during the dump",
        Plan("power", disks=(Disk(256, "ext4", drive="cache=writethrough"),), during=cut_power_soon),
        power_cut,
        quick=True,
    ),
    Scenario(
        "stalled-disk", "stalled disk", Plan("stalled", disks=EXT4, during=stall_disk), stalled
    ),
    Scenario(
        "cpus",
        "offline CPU in the capture kernel",
        Plan("cpus", disks=EXT4, capture_words="nr_cpus=2"),
        with_cpus,
        quick=True,
    ),
    Scenario(
        "small-memory",
        "4 GiB of memory, 128 MB for the capture kernel",
        Plan("ext4", disks=EXT4, ram_mib=4096, cached_mib=96, cpus=2, capture_words="nr_cpus=2", timeout=400),
        on_ext4("sysrq"),
    ),
]
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
