"""The boot after a crash, in which a dump is saved from the disk that the capture kernel wrote it to."""

from pathlib import Path
from typing import Any

from . import disks, initramfs, notes, qemu, tools
from .kernels import Kernel
from .recipes import Recipe

SAVE = Path(__file__).resolve().parent.parent / "guest-capture" / "save"


class NextBoot:
    """The same machine with the dump's disk and an ext4, after it has saved the dump and dumped its running kernel."""

    def __init__(self, recipe: Recipe, kernel: Kernel, program: Path, disk: Path, work: Path, accel: str) -> None:
        work.mkdir()
        self._work = work
        archive = initramfs.Archive()
        archive.add_file("bigiron", program.read_bytes(), executable=True)
        archive.add_file("init", SAVE.read_bytes(), executable=True)
        initrd = work / "initrd"
        initrd.write_bytes(initramfs.build(kernel, "", work) + archive.finish())
        self._files = work / "files"
        disks.make_raw_disk(self._files, recipe.ram_mib << 20)
        disks.format_ext4(self._files)
        with qemu.Machine(
            work,
            kernel=kernel.vmlinuz,
            initrd=initrd,
            command_line="quiet",
            ram_mib=recipe.ram_mib,
            levels=recipe.levels,
            disks=[disk, self._files],
            timeout=recipe.timeout,
            accel=accel,
            architecture=kernel.architecture,
        ) as machine:
            machine.wait_for_end()
            self.console = machine.console()
        self.reports = {record["save"]: record for record in notes.console_records(self.console) if "save" in record}

    def live(self) -> dict[str, Any]:
        """Returns the exit status of the dump of the running kernel as `live`, and the kernel's `release`."""
        return next((record for record in notes.console_records(self.console) if "live" in record), {})

    def summary(self, name: str) -> dict[str, Any]:
        """Returns bigiron's own summary of the first save or of the one `again`; empty if there is none."""
        return self.reports.get(name, {}).get("summary") or {}

    def fetch(self, name: str) -> Path:
        """Returns a copy of a saved file; it does not exist if the file does not."""
        target = self._work / name
        tools.run([tools.find("debugfs") or "debugfs", "-R", f"dump /{name} {target}", self._files])
        return target
