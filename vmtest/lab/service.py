"""A guest with memory that survives a reboot by kexec: production, capture and production kernels in turn."""

import gzip
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import capture_image, device_tree, disks, initramfs, kernels, notes, qemu, tools
from .architectures import NATIVE
from .errors import LabError
from .recipes import EVERY_CLASS, Recipe

HERE = Path(__file__).resolve().parent.parent
GUEST = HERE / "guest-service"
PAGE = 4096
# On a busy machine an emulated timer may be late, which the kernel takes for a broken one.
ALWAYS = "no_timer_check"
# In the order of their dependencies.
MODULES = ("libnvdimm", "nd_btt", "nd_pmem", "nd_e820")


@dataclass(frozen=True)
class Plan:
    """A guest and what its kernels do."""

    script: str  # a file of guest-service/scenarios, without .sh
    series: str = "6.1"
    architecture: str = NATIVE
    ram_mib: int = 1024
    crashkernel: str = "256M"
    cached_mib: int = 64
    kept: str = "memmap=128M!0x20000000"  # empty: the production kernel keeps no memory
    capture_kept: str = "memmap=128M!0x20000000"
    # Start and size in bytes of memory that the device tree keeps, where memmap= does not exist.
    kept_range: tuple[int, int] | None = None
    cpus: int = 2
    drive: str = "cache=unsafe"  # options of QEMU's -drive for the disks that dumps go to
    words: str = ""  # more of the production kernel's command line
    capture_words: str = ""  # more of the capture kernel's
    modules: Sequence[str] = ()  # more modules, in the order of their dependencies
    small: Mapping[str, Path] = field(default_factory=dict)  # programs for a second capture initrd, without /boot
    devices: Sequence[str] = ()  # more words of QEMU's command line
    image: str = ""  # options of bigiron dump in the smallest initramfs; empty: the capture kernel has the guest's own
    saved_mib: int = 0  # size of the disk of saved dumps; 0: that of memory
    reboots: bool = False  # the machine starts again after a reset; otherwise a reset ends it
    timeout: int = 240


class Serviced:
    """A guest that ran to its end: its console, its disks, and the times of its marks."""

    def __init__(self, plan: Plan, program: Path, accel: str | None = None) -> None:
        self.plan = plan
        self._directory = tempfile.TemporaryDirectory(prefix="bigiron-service.")
        self.work = Path(self._directory.name)
        self.lines: list[str] = []
        self.times: list[float] = []  # of the lines
        self.events: list[tuple[str, float]] = []  # the marks and their times, in order
        try:
            self._run(program, accel or qemu.accelerator(4))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._directory.cleanup()

    def __enter__(self) -> "Serviced":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, program: Path, accel: str) -> None:
        plan, work = self.plan, self.work
        tools.need("mke2fs")
        kernel = kernels.get(plan.series, architecture=plan.architecture)
        tools.need(kernel.architecture.qemu)
        archive = initramfs.Archive()
        archive.add_file("init", (GUEST / "init").read_bytes(), executable=True)
        archive.add_file("bigiron", program.read_bytes(), executable=True)
        archive.add_file("capture", (HERE / "guest-kdump" / "capture").read_bytes())
        archive.add_file("scenario", (GUEST / "scenarios" / f"{plan.script}.sh").read_bytes())
        # Compressed, as distributions' are: the capture kernel's is checksummed before it starts.
        production = gzip.compress(initramfs.build(kernel, "", work, (*MODULES, *plan.modules)) + archive.finish(), 6)
        production += b"\0" * (-len(production) % 4)
        (work / "initrd").write_bytes(production)
        boot = initramfs.Archive()
        boot.add_directory("boot")
        boot.add_file(f"boot/vmlinuz-{kernel.release}", kernel.vmlinuz.read_bytes())
        boot.add_file(f"boot/initrd.img-{kernel.release}", production)
        small = initramfs.Archive()
        initramfs.add_programs(small, plan.small)
        initrds = {"initrd": production + boot.finish(), "initrd-small": production + gzip.compress(small.finish(), 6)}
        if plan.image:
            initrds["initrd"] = capture_image.build(kernel, production, plan.image, program, work)
        self._data_disk(kernel, initrds)
        disks.make_raw_disk(self.dump_disk, plan.ram_mib << 20)
        disks.make_raw_disk(self.saved_disk, (plan.saved_mib or plan.ram_mib) << 20)
        disks.format_ext4(self.saved_disk)
        self._machine(kernel, accel)

    def _machine(self, kernel: kernels.Kernel, accel: str) -> None:
        """Runs the machine until it is off, or resets."""
        plan = self.plan
        more: list[str | Path] = []
        if plan.kept_range:
            start, size = plan.kept_range
            tree = device_tree.with_kept_memory(kernel.architecture, plan.ram_mib, plan.cpus, start, size, self.work)
            more += ["-dtb", tree]
        machine = qemu.Machine(
            self.work,
            kernel=kernel.vmlinuz,
            initrd=self.work / "initrd",
            command_line=f"{ALWAYS} vmtest.mode=service crashkernel={plan.crashkernel} {plan.kept} {plan.words}",
            ram_mib=plan.ram_mib,
            levels=4,
            disks=[self.work / "data"],
            timeout=plan.timeout,
            accel=accel,
            cpus=plan.cpus,
            reboots=plan.reboots,
            architecture=kernel.architecture,
            more=[
                *more,
                *(
                    word
                    for image in (self.dump_disk, self.saved_disk)
                    for word in ("-drive", f"file={image},format=raw,if=virtio,{plan.drive}")
                ),
                *plan.devices,
            ],
        )
        with machine:
            machine.follow(self._seen, lambda: None)

    def _data_disk(self, kernel: kernels.Kernel, initrds: Mapping[str, bytes]) -> None:
        plan = self.plan
        recipe = Recipe("service", plan.series, 4, "kdump", plan.ram_mib, plan=dict(EVERY_CLASS) | {
            "cache_clean": (plan.cached_mib << 20) // PAGE, "compressible": 0,
        })  # fmt: skip
        words = f"console=ttyS0 {ALWAYS} panic=-1 nr_cpus=2 reset_devices irqpoll vmtest.mode=capture {plan.capture_kept}"
        files = {"vmlinuz": kernel.vmlinuz.read_bytes(), "command-line": f"{words} {plan.capture_words}".encode()}
        disks.make_data_disk(self.work / "data", recipe, kernel, files | initrds)

    def _seen(self, line: str) -> None:
        now = time.monotonic()
        self.lines.append(line)
        self.times.append(now)
        for record in notes.console_records(line):
            if "error" in record:
                raise LabError(f"the guest reports: {record['error']}\n{self.tail()}")
            if "mark" in record:
                self.events.append((record["mark"], now))

    @property
    def dump_disk(self) -> Path:
        """/dev/vdb, a raw disk for dumps."""
        return self.work / "dump"

    @property
    def saved_disk(self) -> Path:
        """/dev/vdc, an ext4 for saved dumps."""
        return self.work / "saved"

    @property
    def records(self) -> Sequence[dict[str, Any]]:
        return notes.console_records("\n".join(self.lines))

    def ran(self, name: str) -> dict[str, Any]:
        """Returns the record of a program run by the scenario; empty if it did not end."""
        return next((record for record in self.records if record.get("run") == name), {})

    def printed(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def seen(self, text: str) -> float | None:
        """Returns the time of the first line of the capture kernel that has a text."""
        start = next((place for place, line in enumerate(self.lines) if '"mark": "panic-1"' in line), len(self.lines))
        pairs = zip(self.times[start:], self.lines[start:])
        return next((at for at, line in pairs if text in line), None)

    def tail(self) -> str:
        return "\n".join(self.lines[-25:])

    def saved(self, name: str) -> Path:
        """Copies a file from the disk of saved dumps."""
        target = self.work / f"fetched-{name.replace('/', '-')}"
        tools.run(["/usr/sbin/debugfs", "-R", f"dump /{name} {target}", self.saved_disk])
        if not target.exists() or not target.stat().st_size:
            raise LabError(f"no file {name} on the disk\n{self.tail()}")
        return target
