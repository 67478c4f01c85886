"""A guest with CPUs in a given topology, which runs a shell script with the given programs."""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import apt, initramfs, kernels, make, notes, qemu, tools
from lab.architectures import ARCHITECTURES, NATIVE, Architecture
from lab.errors import LabError

INIT = Path(__file__).resolve().parent.parent / "guest-cpus" / "init"
# Of programs for guests of other architectures.
LIBRARIES = ("libc6", "libgcc-s1")
# With QEMU's `max`, the kernel detects an AMD processor and no SMT.
INTEL = "max,la57=off,vendor=GenuineIntel"


@dataclass(frozen=True)
class Topology:
    """The arrangement of CPUs in QEMU."""

    name: str
    smp: str  # value of -smp, such as 8,sockets=2,cores=2,threads=2
    processor: str = INTEL
    nodes: tuple[str, ...] = ()  # CPUs of each memory node
    distances: tuple[tuple[int, int, int], ...] = ()  # distances between two nodes
    ram_mib: int = 1024

    def words(self) -> list[str]:
        """Returns QEMU's arguments for memory nodes."""
        words = []
        for number, cpus in enumerate(self.nodes):
            size = self.ram_mib // len(self.nodes)
            # All memory must belong to a node.
            size += self.ram_mib % size if number == 0 else 0
            words += ["-object", f"memory-backend-ram,id=node{number},size={size}M"]
            ranges = "".join(f",cpus={part}" for part in cpus.split("+") if part)
            words += ["-numa", f"node,nodeid={number},memdev=node{number}{ranges}"]
        for source, destination, distance in self.distances:
            words += ["-numa", f"dist,src={source},dst={destination},val={distance}"]
        return words


def _busybox(architecture: Architecture) -> Path:
    if architecture.is_native:
        return tools.static_busybox()
    return apt.tree(("busybox-static",), architecture.debian) / "bin" / "busybox"


def _archive(kernel: kernels.Kernel, programs: Mapping[str, Path], script: str) -> bytes:
    archive = initramfs.Archive()
    for directory in ("dev", "lib", "modules"):
        archive.add_directory(directory)
    archive.add_console()
    archive.add_file("busybox", _busybox(kernel.architecture).read_bytes(), executable=True)
    archive.add_file("init", INIT.read_bytes(), executable=True)
    archive.add_file("script", script.encode())
    for name, content in initramfs.modules(kernel, ["fuse"]):
        archive.add_file(f"modules/{name}.ko", content)
    if kernel.architecture.is_native:
        initramfs.add_programs(archive, programs)
    elif programs:
        initramfs.add_foreign(archive, programs, apt.tree(LIBRARIES, kernel.architecture.debian))
    return archive.finish()


def run(
    topology: Topology,
    series: str,
    programs: Mapping[str, Path],
    script: str,
    *,
    command_line: str = "quiet",
    accel: str = qemu.ONE_THREAD,
    seconds: float = 600,
    architecture: Architecture = ARCHITECTURES[NATIVE],
) -> str:
    """Runs `script` in a guest, by busybox's shell, and returns the console after the script has ended."""
    kernel = kernels.get(series, architecture=architecture.debian)
    with tempfile.TemporaryDirectory(prefix="bigiron-cpus.") as directory:
        work = Path(directory)
        initrd = work / "initrd"
        initrd.write_bytes(_archive(kernel, programs, script))
        with qemu.Machine(
            work,
            kernel=kernel.vmlinuz,
            initrd=initrd,
            command_line=command_line,
            ram_mib=topology.ram_mib,
            levels=4,
            disks=[],
            timeout=seconds,
            accel=accel,
            cpus=topology.smp,
            processor=topology.processor,
            more=topology.words(),
            architecture=architecture,
        ) as machine:
            machine.wait_for_end()
            console = machine.console()
            log = (work / "qemu.log").read_text(errors="replace")
    if not any("end" in record for record in notes.console_records(console)):
        raise LabError(f"the guest did not finish\n{log}{console[-3000:]}")
    return console


def run_here(
    topology: Topology,
    series: str,
    programs: Mapping[str, Path],
    script: str,
    *,
    command_line: str = "",
    seconds: float = 600,
) -> str:
    """Calls `run` with this machine's accelerator, and once more if it fails."""

    def attempt(accel: str) -> str:
        accel = qemu.ONE_THREAD if accel == "tcg" else accel
        return run(topology, series, programs, script, command_line=f"quiet {command_line}", accel=accel, seconds=seconds)

    return make.with_retry(topology.name, 4, attempt)


def records(console: str) -> list[dict[str, Any]]:
    """Returns the records that the script printed with `say`."""
    return [record for record in notes.console_records(console) if "end" not in record]


def section(console: str, name: str) -> str:
    """Returns the text between the line `--- NAME` and the next line that starts with `---`."""
    found = re.search(rf"^--- {re.escape(name)}\n(.*?)^---", console, re.MULTILINE | re.DOTALL)
    if not found:
        raise LabError(f"the guest's console has no section {name}\n{console[-3000:]}")
    return found[1]
