"""A guest that is dumped while it runs, and readers of the dumps."""

import tempfile
from pathlib import Path
from typing import Any

import crash_text
import drgn_live
import kdump_layout
from tools import Bigiron, Makedumpfile
from verdict import Verdict

from . import disks, initramfs, kernels, notes, qemu, tools
from .errors import LabError
from .recipes import EVERY_CLASS, Recipe

INIT = Path(__file__).resolve().parent.parent / "guest-live" / "init"
SERIES = "6.1"
RAM_MIB = 384
CACHED_MIB = 64
PAGE = 4096
MARKER = "bigiron-vmtest: marker of the running kernel"
DUMPS = ("kdump", "elf", "stream")


class Running:
    """The guest's whole run: its dumps, and its reports about them."""

    def __init__(self, program: Path, levels: int, accel: str) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="bigiron-live.")
        self.work = Path(self._directory.name)
        self.kernel = kernels.get(SERIES)
        # Digests of the kernel's read-only memory, by dump.
        self.constants: dict[str, str] = {}
        try:
            self.records = self._run(program, levels, accel)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._directory.cleanup()

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, program: Path, levels: int, accel: str) -> list[dict[str, Any]]:
        work = self.work
        archive = initramfs.Archive()
        archive.add_file("init", INIT.read_bytes(), executable=True)
        archive.add_file("bigiron", program.read_bytes(), executable=True)
        initrd = work / "initrd"
        initrd.write_bytes(initramfs.build(self.kernel, "", work) + archive.finish())
        cached = {"cache_clean": (CACHED_MIB << 20) // PAGE, "compressible": 0}
        recipe = Recipe("live", SERIES, levels, "qemu", RAM_MIB, plan=dict(EVERY_CLASS) | cached)
        images = [work / name for name in ("data", "files", "stream")]
        disks.make_data_disk(images[0], recipe, self.kernel)
        disks.make_raw_disk(images[1], 1 << 30)
        disks.format_ext4(images[1])
        disks.make_raw_disk(images[2], RAM_MIB << 20)
        with qemu.Machine(
            work,
            kernel=self.kernel.vmlinuz,
            initrd=initrd,
            command_line="",
            ram_mib=RAM_MIB,
            levels=levels,
            disks=images,
            timeout=420,
            accel=accel,
        ) as machine:
            machine.wait_for_end()
            console = machine.console()
        records = notes.console_records(console)
        for record in records:
            if "error" in record:
                raise LabError(f"the guest reports: {record['error']}\n{console[-2000:]}")
        if not any(record.get("run") == "cp" for record in records):
            raise LabError(f"the guest did not finish\n{console[-2000:]}")
        return records

    def ran(self, name: str) -> dict[str, Any]:
        """Returns the record of a command of the guest."""
        return next((record for record in self.records if record.get("run") == name), {})

    def dump(self, name: str) -> Path:
        """Returns a local copy of the dump of this name."""
        target = self.work / f"{name}.dump"
        if not target.exists():
            if name == "stream":
                # The disk's old data follows the stream's end record.
                Makedumpfile().rearrange(self.work / "stream", target)
            else:
                self.fetch(name, target)
        if not target.exists():
            raise LabError(f"no dump {name} on the guest's disk")
        return target

    def fetch(self, name: str, target: Path) -> None:
        """Copies a file from the guest's disk, if it exists."""
        tools.run(["/usr/sbin/debugfs", "-R", f"dump /{name} {target}", self.work / "files"])

    def same_constants(self, name: str, vmlinux: Path, dump: Path, verdict: Verdict) -> None:
        """Judges that the kernel's read-only memory is equal in all dumps."""
        self.constants[name] = drgn_live.constants(vmlinux, dump)
        same = len(set(self.constants.values())) == 1
        verdict.require(same, f"the kernel's read-only memory differs between dumps: {self.constants}")


def judge(running: Running, name: str, bigiron: Bigiron, vmlinux: Path | None) -> Verdict:
    """Judges that a dump is complete and marked as live, and that other programs can read it."""
    verdict = Verdict(name)
    ran = running.ran(name)
    if not verdict.require(ran.get("status") == 0, f"exit status {ran.get('status')}"):
        return verdict
    summary = ran.get("summary") or {}
    verdict.require(summary.get("pages", {}).get("lost") == 0, f"lost pages: {summary.get('pages')}")
    verdict.require(summary.get("source_kind") == "the running kernel", f"dumped: {summary.get('source_kind')}")
    dump = running.dump(name)
    if name != "elf":
        verdict.merge(kdump_layout.judge(dump))
    verdict.require(bigiron.verify(dump) == 0, "bigiron verify fails")
    log = Makedumpfile().log(dump, running.work / f"{name}.log")
    verdict.require(MARKER in log, f"makedumpfile does not find {MARKER!r} in the dump's kernel log")
    if vmlinux is None:
        print(f"    {name}: crash and drgn are skipped: no debug symbols of this kernel")
        return verdict
    verdict.merge(drgn_live.judge(vmlinux, dump, running.kernel.release))
    running.same_constants(name, vmlinux, dump, verdict)
    judge_by_crash(dump, name, vmlinux, verdict)
    return verdict


def judge_by_crash(dump: Path, name: str, vmlinux: Path, verdict: Verdict) -> None:
    """Judges that crash opens the dump, recognizes it as live, and finds its log and modules."""
    [answers] = crash_text.run(str(vmlinux), [str(dump)], ("sys", "log", "mod"))
    if not answers.opened:
        output = " / ".join(answers.start_up)[:300]
        # crash tolerates tasks that ended during the dump only if the dump is marked as live, which an ELF core cannot
        # be.
        changed = name == "elf" and "not found in PID hash" in output
        verdict.require(changed, f"crash does not open it: {output}")
        if changed:
            print(f"    {name}: crash does not recognize it as live, and misses a task: {output}")
        return
    system = "\n".join(answers.commands["sys"])
    # crash's mark for live ELF cores would replace VMCOREINFO.
    verdict.require("LIVE DUMP" in system or name == "elf", f"crash does not recognize the dump as live:\n{system}")
    verdict.require(any(MARKER in line for line in answers.commands["log"]), "crash does not find the marker in the log")
    verdict.require(any("virtio" in line for line in answers.commands["mod"]), "crash finds no modules")


def judge_savecore(running: Running, bigiron: Bigiron, vmlinux: Path | None) -> Verdict:
    """Judges that savecore -L made vmdump.0, and that other programs recognize it."""
    verdict = Verdict("savecore -L")
    ran = running.ran("savecore")
    if not verdict.require(ran.get("status") == 0, f"exit status {ran.get('status')}"):
        return verdict
    dump, core, kdump = (running.work / name for name in ("vmdump.0", "vmcore.0", "kdump.0"))
    running.fetch(dump.name, dump)
    if not verdict.require(dump.exists(), "no vmdump.0 on the guest's disk"):
        return verdict
    verdict.require(bigiron.verify(dump) == 0, "bigiron verify fails")
    if vmlinux:
        tools.run(["zstd", "-q", "-d", "-f", dump, "-o", core])
        verdict.merge(drgn_live.judge(vmlinux, core, running.kernel.release))
        running.same_constants("savecore", vmlinux, core, verdict)
        bigiron.dump(dump, kdump, 31, "lzo")
        judge_by_crash(kdump, "savecore", vmlinux, verdict)
    return verdict


def report(running: Running) -> str:
    """Returns the speed of each dump, and the time that a copy of /proc/kcore would take."""
    lines = []
    for name in DUMPS:
        summary = running.ran(name)["summary"]
        rate = summary["bytes_in"] / max(summary["seconds"], 1e-9) / 1e6
        lines.append(
            f"{name:8} {summary['seconds']:6.2f} s  {rate:7.0f} MB/s of {summary['bytes_in'] / 1e6:.0f} MB kept, "
            f"{summary['bytes_out'] / 1e6:.0f} MB written, peak memory {summary['peak_memory'] >> 20} MiB"
        )
    copied = running.ran("cp")
    state = "was not done after" if copied["status"] else "took"
    lines.append(f"cp       {state} {copied['end'] - copied['begin']:.0f} s; the file claims {copied['size'] / 2**40:.0f} TiB")
    return "\n".join(lines)
