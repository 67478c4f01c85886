"""A guest with three nodes, one of them without processors. Programs run in it with and without the library."""

import re
import tempfile
from pathlib import Path
from typing import Any

from lab import initramfs, kernels, notes, qemu, tools
from lab.errors import LabError

from .run import build

INIT = Path(__file__).resolve().parent.parent / "guest-memory" / "init"
RAM_MIB = 1024
# Two processors each for the first two nodes.
NODES = ((384, "0-1"), (384, "2-3"), (256, ""))
SECONDS = 600


def _archive(library: Path, work: Path) -> bytes:
    archive = initramfs.Archive()
    programs = {"storm": build(work), "lib/libbigiron_preload.so": library}
    # The library's reaper; the guest has no other.
    if library.with_name("bigiron").exists():
        programs["bigiron"] = library.with_name("bigiron")
    for directory in ("dev", "lib"):
        archive.add_directory(directory)
    archive.add_console()
    archive.add_file("busybox", tools.static_busybox().read_bytes(), executable=True)
    archive.add_file("init", INIT.read_bytes(), executable=True)
    initramfs.add_programs(archive, programs)
    return archive.finish()


def _nodes() -> list[str]:
    words = []
    for number, (mib, processors) in enumerate(NODES):
        cpus = f",cpus={processors}" if processors else ""
        words += ["-object", f"memory-backend-ram,id=node{number},size={mib}M"]
        words += ["-numa", f"node,nodeid={number},memdev=node{number}{cpus}"]
    return words


def run_guest(library: Path, series: str, accel: str) -> list[dict[str, Any]]:
    """Runs the tests in a guest with a kernel of this series; returns the name, the status and the last output of
    each."""
    kernel = kernels.get(series)
    with tempfile.TemporaryDirectory(prefix="bigiron-memory.") as directory:
        work = Path(directory)
        initrd = work / "initrd"
        initrd.write_bytes(_archive(library, work))
        with qemu.Machine(
            work,
            kernel=kernel.vmlinuz,
            initrd=initrd,
            command_line="",
            ram_mib=RAM_MIB,
            levels=4,
            disks=[],
            timeout=SECONDS,
            accel=accel,
            cpus=4,
            more=_nodes(),
        ) as machine:
            machine.wait_for_end()
            console = machine.console()
    records = notes.console_records(console)
    if not any("end" in record for record in records):
        raise LabError(f"the guest did not finish\n{console[-3000:]}")
    for record in records:
        if record.get("status"):
            name = record["run"]
            output = [line for line in console.splitlines() if line.startswith(f"{name}: ") or re.match(r"[-+]\S", line)]
            print("\n".join(f"    {line}" for line in output[-12:]))
    return [record for record in records if "run" in record]
