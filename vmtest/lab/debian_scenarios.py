"""The scenarios of vmtest/debian, and their judges."""

import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import crash_text
import kdump_layout
import same_dmesg
from tools import Bigiron, Makedumpfile
from verdict import CannotJudge, Verdict

from . import debian_image, debian_install, kernels, tools
from .debian_guest import DebianGuest, Plan
from .debian_tree import Tree

MARKER = "bigiron-vmtest: marker before the panic"
PANIC = "Kernel panic - not syncing: sysrq triggered crash"
PROGRAMS = ("usr/bin/bigiron", "usr/bin/makedumpfile", "usr/bin/vmcore-dmesg")
DEVICE = "/dev/disk/by-id/virtio-dump"
# LZO, since Debian's makedumpfile cannot read the default, zstd.
SETTINGS = f'DEVICE={DEVICE}\nDIR=/var/crash\nOPTIONS=\nCAPTURE_OPTIONS="-d 31 -c lzo"\n'


Attempt = Callable[[Tree, Sequence[Path], str], Verdict]


@dataclass(frozen=True)
class Scenario:
    """A use of the packages in a Debian, and its judge."""

    name: str
    shows: str
    attempt: Attempt  # called with the tree, the packages and the accelerator


def program_of(packages: Sequence[Path], directory: Path) -> Bigiron:
    """Returns the program in the packages, which judges its own dumps together with the other programs."""
    for package in packages:
        subprocess.run(["dpkg-deb", "-x", package, directory], check=True)
    return Bigiron(directory / "usr/bin/bigiron")


def in_guest(plan: Plan, judge: Callable[[DebianGuest, Bigiron], Verdict]) -> Attempt:
    """Returns an attempt that runs a crashing guest."""

    def attempt(tree: Tree, packages: Sequence[Path], accel: str) -> Verdict:
        with DebianGuest(tree, packages, plan, accel) as guest:
            return judge(guest, program_of(packages, guest.work / "packages"))

    return attempt


def by_apt(tree: Tree, packages: Sequence[Path], _: str) -> Verdict:
    """Installs and removes the packages, without a guest."""
    with tempfile.TemporaryDirectory(prefix="bigiron-install.") as work:
        return debian_install.judge(tree, packages, Path(work))


def in_image(tree: Tree, packages: Sequence[Path], _: str) -> Verdict:
    """Makes an image by dracut, without a guest."""
    with tempfile.TemporaryDirectory(prefix="bigiron-dracut.") as work:
        return debian_image.judge(tree, packages, program_of(packages, Path(work) / "packages"), Path(work))


def healthy(guest: DebianGuest, verdict: Verdict) -> None:
    """Judges that the system's files match its packages, and that all services run."""
    verdict.require(guest.note("failed-units") == "", f"failed units: {guest.note('failed-units')}")
    changed = guest.note("dpkg-verify")
    verdict.require(changed == changed_by_hand(guest), f"files that differ from their packages:\n{changed}")
    verdict.require(guest.note("makedumpfile") == "/usr/bin/bigiron", "makedumpfile is not bigiron")
    verdict.require("ready to kdump" in guest.note("kdump-config"), guest.note("kdump-config"))
    for name in PROGRAMS:
        verdict.require(name in guest.initrds["/var/lib/kdump"], f"no {name} in the initrd of the capture kernel")
        verdict.require(name not in guest.initrds["/boot"], f"{name} is in the ordinary initrd")


def changed_by_hand(guest: DebianGuest) -> str:
    """Returns the expected output of `dpkg -V` for conffiles changed by the plan."""
    return "\n".join(f"??5?????? c /{path}" for path in sorted(guest.plan.files))


def opened_by_crash(dump: Path, guest: DebianGuest, bigiron: Bigiron, verdict: Verdict) -> None:
    """Judges that crash finds the machine, its panic, and the task that caused the panic."""
    vmlinux = str(kernels.debug_symbols(guest.tree.kernel))
    (answers,) = crash_text.run(vmlinux, [str(dump)], ("sys", "bt"))
    if not verdict.require(answers.opened, f"crash does not open {dump.name}: {' / '.join(answers.start_up)[:300]}"):
        return
    system = "\n".join(answers.commands["sys"])
    for text in (guest.tree.kernel.release, PANIC):
        verdict.require(text in system, f"crash's sys does not contain {text!r}\n{system}")
    trace = "\n".join(answers.commands.get("bt", []))
    verdict.require("sysrq_handle_crash" in trace, f"crash's bt does not show the cause of the crash\n{trace}")
    verdict.merge(same_dmesg.judge_crash(bigiron, Path(vmlinux), dump))


def whole(plain: Path, log: bytes, bigiron: Bigiron, verdict: Verdict) -> None:
    """Judges a complete dump of level 31: other programs print the same log, which equals the log saved with the
    dump."""
    verdict.merge(kdump_layout.judge(plain))
    level = kdump_layout.Kdump(plain).dump_level
    verdict.require(level == 31, f"the dump's level is {level}")
    verdict.require(bigiron.verify(plain) == 0, "bigiron verify fails")
    reference = same_dmesg.by_makedumpfile(Makedumpfile(), plain, plain.parent)
    same_dmesg.equal("saved log and makedumpfile", same_dmesg.narrow_escapes(log), reference, verdict)
    same_dmesg.equal("saved log and bigiron", log, bigiron.log(plain), verdict)
    for text in (MARKER, PANIC):
        verdict.require(text.encode() in log, f"{text!r} is not in the log")


def only(paths: list[Path], what: str, verdict: Verdict) -> Path | None:
    """Returns the path if there is exactly one; otherwise records a difference."""
    names = [path.name for path in paths]
    return paths[0] if verdict.require(len(paths) == 1, f"{what}: {names or 'none'}") else None


def by_kdump_tools(guest: DebianGuest, bigiron: Bigiron, service: str = "Result=exec-condition") -> Verdict:
    """Judges that kdump-tools has saved a log and a flattened dump by its own scripts. `service` is the expected result
    of bigiron-save.service; the default is that of a system without a configured device."""
    verdict = Verdict("kdump-tools")
    healthy(guest, verdict)
    verdict.require(service in guest.note("bigiron-save"), guest.note("bigiron-save"))
    for text in ("running makedumpfile -F -c -d 31 /proc/vmcore", "kdump-tools: saved vmcore in"):
        verdict.require(guest.printed(text), f"kdump-tools does not print {text!r}")
    found = [path for path in guest.crashes.iterdir() if re.fullmatch(r"\d{12}", path.name)]
    directory = only(found, f"directories of crashes\n{guest.note('crash-files')}", verdict)
    if directory is None:
        return verdict
    names = sorted(path.name for path in directory.iterdir())
    stamp = directory.name
    if not verdict.require(names == [f"dmesg.{stamp}", f"dump.{stamp}"], f"its directory contains {names}"):
        return verdict
    dump, log = directory / f"dump.{stamp}", directory / f"dmesg.{stamp}"
    # makedumpfile creates the log; kdump-tools creates the dump, with its umask.
    mode = log.stat().st_mode & 0o777
    verdict.require(mode == 0o600, f"the log has mode {mode:o}")
    verdict.require(bigiron.verify(dump) == 0, "bigiron verify fails for the flattened dump")
    whole(Makedumpfile().rearrange(dump, guest.work / "plain"), log.read_bytes(), bigiron, verdict)
    opened_by_crash(dump, guest, bigiron, verdict)
    return verdict


def through_device(guest: DebianGuest, bigiron: Bigiron) -> Verdict:
    """Judges that the capture kernel's initrd wrote the dump to a disk, and that the service saved it from there."""
    verdict = Verdict("dump device")
    healthy(guest, verdict)
    for text in (f"bigiron: dumping /proc/vmcore to {DEVICE}", f"bigiron: the dump is on {DEVICE}; rebooting"):
        verdict.require(guest.printed(text), f"the capture kernel does not print {text!r}\n{guest.tail()}")
    verdict.require(not guest.printed("running makedumpfile"), "kdump-tools saved a dump too")
    state, log = guest.note("bigiron-save"), guest.note("bigiron-save-log")
    for text in ("Result=success", "ConditionResult=yes", "ExecMainStatus=0"):
        verdict.require(text in state, f"bigiron-save.service: {state}\n{log}")
    names = sorted(path.name for path in guest.crashes.iterdir() if path.name[-2:] == ".0")
    if not verdict.require(names == ["dmesg.0", "info.0", "vmdump.0"], f"{guest.note('crash-files')}\n{log}"):
        return verdict
    for name in names:
        mode = (guest.crashes / name).stat().st_mode & 0o777
        verdict.require(mode == 0o600, f"{name} has mode {mode:o}")
    dump = guest.crashes / "vmdump.0"
    whole(dump, (guest.crashes / "dmesg.0").read_bytes(), bigiron, verdict)
    opened_by_crash(dump, guest, bigiron, verdict)
    again = guest.work / "again"
    command = [bigiron.program, "save", guest.work / "dump.img", f"{again}/"]
    ended = subprocess.run(command, capture_output=True, text=True)
    nothing = ended.returncode == 0 and not list(again.glob("vmdump.*"))
    verdict.require(nothing, f"the disk still contains a dump: {ended.stdout}{ended.stderr}")
    return verdict


def refused_device(guest: DebianGuest, bigiron: Bigiron) -> Verdict:
    """Judges a configured device with a file system: it is unchanged, and kdump-tools saves the dump itself."""
    verdict = by_kdump_tools(guest, bigiron, "Result=success")
    verdict.require(guest.printed(f"bigiron: the dump to {DEVICE} failed; the boot continues"), "the dump was not refused")
    tools.run([tools.find("e2fsck") or "e2fsck", "-fn", guest.work / "dump.img"])
    return verdict


SCENARIOS = [
    Scenario("install", "apt installs the packages instead of makedumpfile, and removes them", by_apt),
    Scenario("dracut", "kdump-utils' core_collector in a dracut image with the module", in_image),
    Scenario(
        "kdump-tools",
        "kdump-tools saves the dump, with bigiron as its makedumpfile",
        in_guest(Plan(), by_kdump_tools),
    ),
    Scenario(
        "dump-device",
        "the capture kernel's initrd writes to a raw disk, bigiron-save.service saves the dump",
        in_guest(Plan(files={"etc/default/bigiron": SETTINGS}, dump_disk="bare"), through_device),
    ),
    Scenario(
        "refused-device",
        "the dump device has a file system: it is unchanged, kdump-tools saves the dump",
        in_guest(Plan(files={"etc/default/bigiron": SETTINGS}, dump_disk="ext4"), refused_device),
    ),
]
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
