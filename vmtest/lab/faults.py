"""Makes the dump of one situation: boots a guest, makes the situation, and lets QEMU dump the guest's memory."""

import hashlib
import shutil
import tempfile
import time
from pathlib import Path

from . import cache, disks, headers, initramfs, kernels, make, qemu
from .errors import LabError
from .architectures import NATIVE
from .fault_cases import Case
from .kernels import Kernel

SOURCE = Path(__file__).resolve().parent.parent / "guest-faults"
# What replaces files of SOURCE on arm64, or is included before them.
FOR_ARM64 = SOURCE.with_name("guest-faults-arm64")
# The module with debug information.
SYMBOLS = "faults.ko.debug"
READY = "faults: ready"
PANICKED = "---[ end Kernel panic"
# Before it, a panic is one of the emulated machine.
STARTED = "Run /init as init process"


# What the host does at a line of the guest.
_STOP_DISK = "bigiron-vmtest: stop the disk"
_INJECT = "bigiron-vmtest: inject a machine check"
# An uncorrected error of processor 1 in bank 1, at an address: valid, uncorrected, reported, with its context corrupt,
# when reading data from a cache (Intel's SDM, volume 3, IA32_MCi_STATUS). MCIP and RIPV are set in IA32_MCG_STATUS.
_MACHINE_CHECK = "mce 1 1 0xbe00000000000134 0x5 0x123400 0x8c"


def _hash(case: Case, caller: str, architecture: str) -> str:
    made = (case.name, case.command_line, case.settle, case.panics, case.modules, caller)
    digest = hashlib.sha256(repr(made).encode())
    files = sorted(SOURCE.iterdir()) + (sorted(FOR_ARM64.iterdir()) if architecture == "arm64" else [])
    for file in files:
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:8]


def dump(case: Case, series: str, caller: str = "thread", architecture: str = NATIVE) -> Path:
    """Returns the directory with the dump of a situation, `vmcore`, `console.log`, and of one that the module makes its
    symbols; makes it if necessary."""
    kernel = kernels.get(series, architecture=architecture, flavour=case.flavours.get(series, ""))
    caller = case.caller or caller
    name = f"{case.name}-{caller}"
    system = series if architecture == NATIVE else f"{series}-{architecture}"
    final = cache.root() / ".faults" / f"{system}-{name}-{kernel.version}-{_hash(case, caller, architecture)}"
    with cache.lock(f"faults-{system}-{name}"):
        if (final / (SYMBOLS if _has_module(case) else "vmcore")).exists():
            return final
        # Dumps of older modules do not count, and each takes as much room as the guest's memory.
        for old in final.parent.glob(f"{system}-{name}-{kernel.version}-*"):
            shutil.rmtree(old)
        return make.with_retry(name, 4, lambda accel: _attempt(case, kernel, caller, final, accel), architecture)


def _attempt(case: Case, kernel: Kernel, caller: str, final: Path, accel: str) -> Path:
    with cache.new_directory(final) as made, tempfile.TemporaryDirectory(dir=final.parent, prefix=".work.") as work:
        _run(case, kernel, caller, made, Path(work), accel)
        (made / "vmcore").chmod(0o644)
    return final


def _has_module(case: Case) -> bool:
    """False for a situation that processes make alone."""
    return not case.name.startswith("user-")


def _archive(case: Case, kernel: Kernel, work: Path) -> bytes:
    archive = initramfs.Archive()
    for directory in ("dev", "modules"):
        archive.add_directory(directory)
    archive.add_console()
    architecture = kernel.architecture
    archive.add_file("busybox", initramfs.busybox(architecture).read_bytes(), executable=True)
    archive.add_file("init", (SOURCE / "init").read_bytes(), executable=True)
    archive.add_file("loads.sh", (SOURCE / "loads.sh").read_bytes())
    # Position-independent: only such a static program has tables of its call frames.
    futex = initramfs.compile_guest("futex", [str(SOURCE / "futex.c")], work, architecture, link="-static-pie")
    archive.add_file("futex", futex, executable=True)
    for name in ("devices", "nfs"):
        program = initramfs.compile_guest(name, [str(SOURCE / f"{name}.c")], work, architecture)
        archive.add_file(name, program, executable=True)
    if _has_module(case):
        archive.add_file("faults.ko", headers.build_module(kernel, SOURCE, work, FOR_ARM64))
    loaded = [*initramfs.MODULES, *architecture.modules, *case.modules]
    for place, (name, content) in enumerate(initramfs.modules(kernel, loaded)):
        archive.add_file(f"modules/{place:02}-{name}.ko", content)
    return archive.finish()


def _run(case: Case, kernel: Kernel, caller: str, made: Path, work: Path, accel: str) -> None:
    initrd = work / "initrd"
    initrd.write_bytes(_archive(case, kernel, work))
    disk = work / "disk"
    disks.make_raw_disk(disk, 64 << 20)
    disks.format_ext4(disk)
    # A kernel that panics waits for the dump.
    words = f"vmtest.situation={case.name} vmtest.caller={caller} oops=panic panic=0 {case.command_line}"
    drive = ["-drive", f"if=none,id=d0,format=raw,file={disk},cache=unsafe", "-device", "virtio-blk-pci,drive=d0"]
    with qemu.Machine(
        work,
        kernel=kernel.vmlinuz,
        initrd=initrd,
        command_line=words,
        ram_mib=case.ram_mib,
        levels=4,
        disks=[],
        timeout=case.seconds + 60,
        accel=accel,
        more=drive,
        architecture=kernel.architecture,
    ) as machine:
        if case.name == "user-disk":
            machine.wait_for(_STOP_DISK)
            nothing = dict.fromkeys(("bps", "bps_wr", "iops", "iops_rd", "iops_wr"), 0)
            machine.monitor("block_set_io_throttle", device="d0", bps_rd=1, **nothing)
        if case.name == "user-hardware":
            machine.wait_for(_INJECT)
            machine.monitor("human-monitor-command", **{"command-line": _MACHINE_CHECK})
        _wait(machine, case)
        time.sleep(case.settle)
        machine.monitor("dump-guest-memory", paging=False, protocol=f"file:{made / 'vmcore'}")
        if _has_module(case):
            shutil.copy(work / SYMBOLS, made)
        (made / "console.log").write_text(machine.console())


def _wait(machine: qemu.Machine, case: Case) -> None:
    """Waits for the situation, or for the panic that it leads to."""
    machine.wait_for(STARTED)
    deadline = time.monotonic() + case.seconds
    ends = (PANICKED,) if case.panics else (READY, PANICKED)
    while not any(text in machine.console() for text in ends):
        if time.monotonic() > deadline or 'bigiron-vmtest: {"error"' in machine.console():
            tail = "\n".join(machine.console().splitlines()[-25:])
            raise LabError(f"the guest did not make the situation\n{tail}")
        time.sleep(0.2)
