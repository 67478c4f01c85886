"""A guest that runs Debian, from its first boot through crash and capture to its second boot."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import debian_tree, disks, notes, qemu, tools
from .debian_tree import Tree
from .errors import LabError

GUEST = Path(__file__).resolve().parent.parent / "guest-debian"
IMAGE_MIB = 1536
DUMP_DISK_MIB = 512
# First boot, capture kernel, second boot.
BOOTS = 3
# Notes of the guest (guest-debian/vmtest), and the directory in which kdump-tools and bigiron-save.service store dumps.
NOTES = "/var/lib/vmtest"
CRASHES = "/var/crash"


@dataclass(frozen=True)
class Plan:
    """Configuration of a Debian guest."""

    files: Mapping[str, str] = field(default_factory=dict)  # configuration files of its administrator: path and content
    dump_disk: str = ""  # a second disk, by the serial number "dump": raw, or with ext4
    ram_mib: int = 640
    crashkernel: str = "384M-:128M"  # value in Debian's /etc/default/grub.d/kdump-tools.cfg
    timeout: int = 1200


class DebianGuest:
    """A Debian guest that was booted, crashed, rebooted and powered off."""

    def __init__(self, tree: Tree, packages: Sequence[Path], plan: Plan, accel: str) -> None:
        self.tree = tree
        self.plan = plan
        self.marks: list[str] = []
        self.lines: list[str] = []
        self._directory = tempfile.TemporaryDirectory(prefix="bigiron-debian.")
        self.work = Path(self._directory.name)
        self.image = self.work / "root.img"
        try:
            self.initrds = self._make_image(packages)
            self._run(accel)
            self._take_files()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._directory.cleanup()

    def __enter__(self) -> "DebianGuest":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make_image(self, packages: Sequence[Path]) -> dict[str, list[str]]:
        """Installs the packages as an administrator does; returns the contents of the initrds."""
        root = debian_tree.copy(self.tree, self.work / "root")
        release = self.tree.kernel.release
        debian_tree.install(root, packages)
        for path, text in self.plan.files.items():
            (root / path).write_text(text)
        # Runs automatically for a new kernel; an administrator runs it after a change of /etc/default/bigiron.
        debian_tree.run_in(root, ["/etc/kernel/postinst.d/kdump-tools", release])
        # kdump-config compares the files; without this copy it would spend minutes on remaking the initrd.
        shutil.copy(root / "etc/kdump/sysctl.conf", root / f"var/lib/kdump/latest_sysctls-{release}")
        initrds = {
            name: debian_tree.run_in(root, ["lsinitramfs", f"{name}/initrd.img-{release}"]).splitlines()
            for name in ("/boot", "/var/lib/kdump")
        }
        shutil.copy(GUEST / "vmtest", root / "usr/local/sbin/vmtest")
        shutil.copy(GUEST / "vmtest.service", root / "etc/systemd/system/vmtest.service")
        debian_tree.run_in(root, ["systemctl", "enable", "vmtest.service"])
        shutil.copy(root / "boot" / f"initrd.img-{release}", self.work / "initrd")
        shutil.copy(root / "boot" / f"vmlinuz-{release}", self.work / "vmlinuz")
        disks.make_ext4(self.image, root, IMAGE_MIB)
        return initrds

    def _run(self, accel: str) -> None:
        # Devices are named explicitly: the root disk must come first, as /dev/vda.
        images = {"root": self.image}
        if self.plan.dump_disk:
            images["dump"] = self.work / "dump.img"
            disks.make_raw_disk(images["dump"], DUMP_DISK_MIB << 20)
            if self.plan.dump_disk == "ext4":
                disks.format_ext4(images["dump"])
        more = ["-device", "virtio-rng-pci"]
        for name, image in images.items():
            more += ["-drive", f"if=none,id={name},format=raw,file={image},cache=unsafe"]
            more += ["-device", f"virtio-blk-pci,drive={name},serial={name}"]
        self.machine = qemu.Machine(
            self.work,
            kernel=self.work / "vmlinuz",
            initrd=self.work / "initrd",
            command_line=f"root=/dev/vda ro crashkernel={self.plan.crashkernel}",
            ram_mib=self.plan.ram_mib,
            levels=4,
            disks=[],
            timeout=self.plan.timeout,
            accel=accel,
            more=more,
            reboots=True,
        )
        with self.machine:
            self.machine.follow(self._seen, lambda: None)

    def _seen(self, line: str) -> None:
        self.lines.append(line)
        # A guest that cannot boot reboots endlessly.
        if sum("] Linux version" in line for line in self.lines) > BOOTS:
            raise LabError(f"the guest boots more than {BOOTS} times\n{self.tail()}")
        for record in notes.console_records(line):
            if "error" in record:
                raise LabError(f"the guest reports: {record['error']}\n{self.tail()}")
            if "mark" in record:
                self.marks.append(record["mark"])

    def _take_files(self) -> None:
        """Copies the guest's files from its disk."""
        if self.marks != ["first-boot", "panic", "second-boot"]:
            raise LabError(f"the guest reached only {self.marks}\n{self.tail()}")
        debugfs = tools.find("debugfs") or "debugfs"
        for path in (NOTES, CRASHES):
            tools.run([debugfs, "-R", f"rdump {path} {self.work}", self.image])

    def tail(self) -> str:
        return "\n".join(self.lines[-25:])

    def printed(self, text: str) -> bool:
        """Returns true if a line of the console contains the text."""
        return any(text in line for line in self.lines)

    def note(self, name: str) -> str:
        """Returns a note written by the guest."""
        return (self.work / Path(NOTES).name / name).read_text(errors="replace").strip()

    @property
    def crashes(self) -> Path:
        """Returns a copy of the guest's /var/crash, with the modes of the files."""
        return self.work / Path(CRASHES).name
