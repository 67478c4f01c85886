"""A guest that crashes. A shell script determines the work of its capture kernel."""

import functools
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import disks, initramfs, kernels, notes, qemu, tools
from .errors import LabError
from .gdbstub import Stub
from .recipes import EVERY_CLASS, Recipe

HERE = Path(__file__).resolve().parent.parent
GUEST = HERE / "guest-kdump"
PAGE = 4096
# Modules in the order of their dependencies.
XFS = ("crc32c_generic", "libcrc32c", "xfs")
PORT = ("virtio_console",)
NETWORK = ("failover", "net_failover", "virtio_net")
BUSY_CPUS = 2


@dataclass(frozen=True)
class Disk:
    """A disk of the guest; the first is /dev/vdb."""

    mebibytes: int
    file_system: str = ""  # ext4 or xfs; empty for a raw disk
    drive: str = ""  # further options of QEMU's -drive, such as cache=… or throttling.…
    error_at: int = 0  # first byte at which writes fail


@dataclass(frozen=True)
class Plan:
    """A guest and its crash."""

    script: str  # a file of guest-kdump/scenarios, without .sh
    panic: str = "sysrq"
    series: str = "6.1"
    levels: int = 4
    ram_mib: int = 384
    crashkernel: str = "128M"
    cached_mib: int = 48  # page cache in MiB; the guest has as much shared memory
    cpus: int = 2
    capture_words: str = "nr_cpus=1"
    disks: Sequence[Disk] = ()
    modules: Sequence[str] = ()
    port: bool = False  # a virtio port to the host
    network: bool = False  # a network card; the host's loopback is 10.0.2.2, the guest 10.0.2.15
    files: Mapping[str, Path] = field(default_factory=dict)  # files for the capture kernel, all executable
    before: str = ""  # a file of guest-kdump, run by the first kernel before the panic
    first_programs: Mapping[str, Path] = field(default_factory=dict)  # programs for the first kernel, with their libraries
    environment: Mapping[str, str] = field(default_factory=dict)  # environment of the script
    during: Callable[["Crashed"], None] | None = None  # called repeatedly while the guest runs
    timeout: int = 420


def busy_plan(script: str, ram_mib: int, **more: Any) -> Plan:
    """Returns the plan of a guest that contains mostly page cache and shared memory, and dumps with all its CPUs."""
    return Plan(
        script,
        disks=(Disk(2 * ram_mib, "ext4"),),
        ram_mib=ram_mib,
        crashkernel="256M",
        cached_mib=ram_mib // 4,
        cpus=BUSY_CPUS,
        capture_words=f"nr_cpus={BUSY_CPUS}",
        timeout=1200,
        **more,
    )


class Crashed:
    """A crashed guest: its console, its disks, and the times of its marks."""

    def __init__(self, plan: Plan, program: Path, accel: str | None = None) -> None:
        self.plan = plan
        self._directory = tempfile.TemporaryDirectory(prefix="bigiron-kdump.")
        self.work = Path(self._directory.name)
        self.marks: dict[str, float] = {}
        self.lines: list[tuple[float, str]] = []
        self.cut = False
        self.done: set[str] = set()  # completed actions of `during`
        try:
            self._run(program, accel or qemu.accelerator(plan.levels))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._directory.cleanup()

    def __enter__(self) -> "Crashed":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, program: Path, accel: str) -> None:
        plan, work = self.plan, self.work
        tools.need("qemu-system-x86_64", "mke2fs")
        kernel = kernels.get(plan.series)
        archive = initramfs.Archive()
        archive.add_file("init", (GUEST / "init").read_bytes(), executable=True)
        both = initramfs.build(kernel, "", work, plan.modules) + archive.finish()
        initrd = work / "initrd"
        initrd.write_bytes(both + self._first_archive())
        self._data_disk(kernel, both + self._capture_archive(program))
        self._make_disks()
        more = [*self._drives(), "-device", "virtio-serial-pci"]
        if plan.port:
            more += ["-chardev", f"file,id=port,path={self.received}", "-device", "virtserialport,chardev=port,name=bigiron"]
        if plan.network:
            more += ["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]
        more += ["-gdb", f"unix:{work / 'gdb'},server=on,wait=off"]
        self.machine = qemu.Machine(
            work,
            kernel=kernel.vmlinuz,
            initrd=initrd,
            command_line=f"vmtest.mode=crash vmtest.panic={plan.panic} crashkernel={plan.crashkernel}",
            ram_mib=plan.ram_mib,
            levels=plan.levels,
            disks=[],
            timeout=plan.timeout,
            accel=accel,
            cpus=plan.cpus,
            more=more,
        )
        with self.machine:
            self.machine.follow(self._seen, self._tick)
            self.ended = time.monotonic()

    def _first_archive(self) -> bytes:
        archive = initramfs.Archive()
        if self.plan.before:
            archive.add_file("before", (GUEST / self.plan.before).read_bytes())
        initramfs.add_programs(archive, self.plan.first_programs)
        return archive.finish()

    def _capture_archive(self, program: Path) -> bytes:
        archive = initramfs.Archive()
        archive.add_file("bigiron", program.read_bytes(), executable=True)
        archive.add_file("capture", (GUEST / "capture").read_bytes())
        settings = "".join(f"{name}='{value}'\n" for name, value in self.plan.environment.items())
        archive.add_file("scenario", settings.encode() + (GUEST / "scenarios" / f"{self.plan.script}.sh").read_bytes())
        made: set[Path] = set()
        for name, path in self.plan.files.items():
            for parent in reversed(Path(name).parents):
                if parent.name and parent not in made:
                    archive.add_directory(str(parent))
                    made.add(parent)
            archive.add_file(name, path.read_bytes(), executable=True)
        return archive.finish()

    def _data_disk(self, kernel: kernels.Kernel, capture_initrd: bytes) -> None:
        """Makes the disk that the first kernel reads: files for its page cache, and the capture kernel."""
        plan = self.plan
        recipe = Recipe("kdump", plan.series, plan.levels, "kdump", plan.ram_mib, plan=dict(EVERY_CLASS) | {
            "cache_clean": (plan.cached_mib << 20) // PAGE, "compressible": 0,
        })  # fmt: skip
        words = f"console=ttyS0 panic=-1 {plan.capture_words} reset_devices irqpoll vmtest.mode=capture"
        files = {"vmlinuz": kernel.vmlinuz.read_bytes(), "initrd": capture_initrd, "command-line": words.encode()}
        disks.make_data_disk(self.work / "data", recipe, kernel, files)

    def image(self, place: int) -> Path:
        """Returns the image of the disk at this place of the plan."""
        return self.work / f"disk{place}"

    def _make_disks(self) -> None:
        for place, disk in enumerate(self.plan.disks):
            disks.make_raw_disk(self.image(place), disk.mebibytes << 20)
            if disk.file_system == "ext4":
                disks.format_ext4(self.image(place))
            elif disk.file_system == "xfs":
                tools.need("mkfs.xfs")
                tools.run([tools.find("mkfs.xfs") or "mkfs.xfs", "-q", self.image(place)])

    def _drives(self) -> list[str]:
        # Devices are named explicitly, because these must precede those of if=virtio.
        data = f"if=none,id=data,format=raw,file={self.work / 'data'},cache=unsafe"
        options = ["-drive", data, "-device", "virtio-blk-pci,drive=data"]
        for place, disk in enumerate(self.plan.disks):
            drive = f"if=none,id=d{place},format=raw,"
            if disk.error_at:
                rules = self.work / f"rules{place}"
                # block/blkdebug.c: after the event, every write at or past the sector fails.
                rules.write_text(
                    f'[inject-error]\nevent = "pwritev"\niotype = "write"\nerrno = "5"\n'
                    f'sector = "{disk.error_at // 512}"\nonce = "off"\n'
                )
                drive += f"file=blkdebug:{rules}:{self.image(place)},cache=unsafe"
            else:
                drive += f"file={self.image(place)},{disk.drive or 'cache=unsafe'}"
            options += ["-drive", drive, "-device", f"virtio-blk-pci,drive=d{place},werror=report"]
        return options

    def _seen(self, line: str) -> None:
        now = time.monotonic()
        self.lines.append((now, line))
        if "Linux version" in line and "panic" in self.marks:
            self.marks.setdefault("capture-kernel", now)
        for record in notes.console_records(line):
            if "error" in record:
                raise LabError(f"the guest reports: {record['error']}\n{self.tail()}")
            if "mark" in record:
                self.marks[record["mark"]] = now
                if record["mark"] == "panic":
                    self._panic()

    def _tick(self) -> None:
        if self.plan.during:
            self.plan.during(self)

    def _panic(self) -> None:
        if self.plan.panic == "nmi":
            time.sleep(0.5)
            self.machine.monitor("inject-nmi")
        elif self.plan.panic == "null":
            time.sleep(0.5)
            with Stub(self.work / "gdb") as stub:
                stub.jump_to_zero()

    def power_cut(self) -> None:
        """Ends the machine immediately."""
        self.cut = True
        self.machine.kill()

    def seconds_since(self, mark: str) -> float:
        """Returns the host's time since the guest set a mark; negative before the mark."""
        return time.monotonic() - self.marks[mark] if mark in self.marks else -1.0

    def write_speed(self, place: int, bytes_per_second: int) -> None:
        """Limits the speed at which the disk accepts data; 0 is no limit."""
        limits = dict.fromkeys(("bps", "bps_rd", "iops", "iops_rd", "iops_wr"), 0)
        self.machine.monitor("block_set_io_throttle", device=f"d{place}", bps_wr=bytes_per_second, **limits)

    def written(self, place: int) -> int:
        """Returns the number of bytes that the disk has received since the machine started."""
        disks = self.machine.monitor("query-blockstats")
        return next(disk["stats"]["wr_bytes"] for disk in disks if disk.get("device") == f"d{place}")

    def tail(self) -> str:
        return "\n".join(line for _, line in self.lines[-15:])

    @functools.cached_property
    def records(self) -> list[dict[str, Any]]:
        """Returns all machine-readable lines of the guest."""
        return notes.console_records("\n".join(line for _, line in self.lines))

    def printed(self, text: str) -> bool:
        """Returns true if a line of the console contains the text."""
        return any(text in line for _, line in self.lines)

    def ran(self, name: str) -> dict[str, Any]:
        """Returns the record of a program run by the script; empty if the program did not end."""
        return next((record for record in self.records if record.get("run") == name), {})

    def fetch(self, place: int, name: str) -> Path:
        """Copies a file from a disk: from ext4 by debugfs; from a raw disk, the whole disk."""
        if not self.plan.disks[place].file_system:
            return self.image(place)
        target = self.work / f"fetched-{place}-{name}"
        tools.run(["/usr/sbin/debugfs", "-R", f"dump /{name} {target}", self.image(place)])
        if not target.exists():
            raise LabError(f"no file {name} on the disk\n{self.tail()}")
        return target

    def names(self, place: int) -> list[str]:
        """Returns the names in the root directory of an ext4 disk."""
        listed = tools.run(["/usr/sbin/debugfs", "-R", "ls -p /", self.image(place)])
        return [line.split("/")[5] for line in listed.splitlines() if line.count("/") > 5 and line.split("/")[5]]

    def repair(self, place: int) -> None:
        """Repairs the file system as the next boot does after a power cut."""
        subprocess.run([tools.find("e2fsck") or "e2fsck", "-fy", self.image(place)], capture_output=True, check=False)

    @property
    def received(self) -> Path:
        """Returns the data received through the port."""
        return self.work / "port"

