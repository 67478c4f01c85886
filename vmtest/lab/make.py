"""Makes one vmcore from its recipe: boots the guest, fills its memory, dumps it, and records the contents."""

import datetime
import hashlib
import json
import mmap
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from . import cache, disks, initramfs, kernels, notes, qemu, tools
from .architectures import NATIVE
from .errors import LabError, Unavailable
from .kernels import Kernel
from .recipes import RECIPE_VERSION, Recipe

Made = TypeVar("Made")


@dataclass(frozen=True)
class Capture:
    """Additions to the capture kernel, which always copies /proc/vmcore to its third disk."""

    overlay: bytes = b""  # an archive that is unpacked over its root file system
    disks: list[Path] = field(default_factory=list)  # further disks; the first is /dev/vde
    last_words: str = "bigiron-vmtest: captured"


def find(recipe: Recipe) -> Path | None:
    """Returns the directory of an existing vmcore, of any kernel version; the newest if there are several."""
    made = cache.root().glob(f"{recipe.name}-*-{recipe.hash()}/manifest.json")
    newest = max(made, key=lambda path: path.stat().st_mtime, default=None)
    return newest.parent if newest else None


def kernel_of(recipe: Recipe) -> Kernel:
    """Returns the kernel of an existing vmcore, or the kernel with which it would be made."""
    made = find(recipe)
    if made:
        release = json.loads((made / "manifest.json").read_text())["kernel"]["release"]
        for kernel in kernels.cached(recipe.series, recipe.architecture, recipe.flavour):
            if kernel.release == release:
                return kernel
    return kernels.get(recipe.series, architecture=recipe.architecture, flavour=recipe.flavour)


def with_retry(name: str, levels: int, attempt: Callable[[str], Made], architecture: str = NATIVE) -> Made:
    """Calls `attempt` with an accelerator, and once more if it fails: emulated guests sometimes hang."""
    try:
        return attempt(qemu.accelerator(levels) if architecture == NATIVE else "tcg")
    except Unavailable:
        raise
    except LabError as error:
        print(f"{name}: failed, trying once more\n{error}", file=sys.stderr)
        return attempt("tcg")


def make(recipe: Recipe, *, remake: bool = False) -> Path:
    """Returns the directory of the vmcore, and makes it if necessary."""
    with cache.lock(recipe.name):
        made = find(recipe)
        if made and not remake:
            return made
        kernel = kernels.get(
            recipe.series, architecture=recipe.architecture, flavour=recipe.flavour, newest=remake
        )
        tools.need(kernel.architecture.qemu)
        final = cache.root() / f"{recipe.name}-{kernel.version}-{recipe.hash()}"
        return with_retry(
            recipe.name, recipe.levels, lambda accel: _attempt(recipe, kernel, final, accel), recipe.architecture
        )


def _attempt(recipe: Recipe, kernel: Kernel, final: Path, accel: str) -> Path:
    started = time.monotonic()
    with cache.new_directory(final) as made, tempfile.TemporaryDirectory(dir=final.parent, prefix=".work.") as work:
        try:
            console = run_guest(recipe, kernel, made, Path(work), accel)
        except LabError:
            log = Path(work) / "console.log"
            if log.exists():
                shutil.copy(log, final.parent / f"{recipe.name}.failed-console.log")
            raise
        manifest = _manifest(recipe, kernel, made, Path(work), console)
        manifest["made"] |= {"accelerator": accel, "seconds": round(time.monotonic() - started, 1)}
        (made / "vmcore").chmod(0o644)  # QEMU makes it 0400
        (made / "console.log").write_text(console)
        (made / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return final


def run_guest(
    recipe: Recipe, kernel: Kernel, made: Path, work: Path, accel: str, capture: Capture = Capture()
) -> str:
    """Runs the guest; leaves `vmcore` in `made` and the notes disk in `work`. Returns the console's text."""
    initrd = work / "initrd"
    initrd.write_bytes(initramfs.build(kernel, recipe.plan_text(), work, kexec=recipe.how == "kdump"))
    images = [work / name for name in ("data", "notes")]
    disks.make_data_disk(images[0], recipe, kernel)
    disks.make_notes_disk(images[1])
    mode = "dump"
    words = [f"vmtest.balloon={recipe.balloon}", recipe.command_line]
    if recipe.how == "kdump":
        mode = "crash"
        words.append(f"crashkernel={recipe.crashkernel_mib}M")
        images += [_vmcore_disk(recipe, work), _capture_disk(kernel, initrd, capture, work), *capture.disks]
    with qemu.Machine(
        work,
        kernel=kernel.vmlinuz,
        initrd=initrd,
        command_line=" ".join([f"vmtest.mode={mode}", *words]),
        ram_mib=recipe.ram_mib,
        levels=recipe.levels,
        disks=images,
        timeout=recipe.timeout,
        accel=accel,
        architecture=kernel.architecture,
    ) as machine:
        machine.wait_for("bigiron-vmtest: balloon")
        machine.monitor("balloon", value=(recipe.ram_mib << 20) - recipe.balloon * kernel.page_size)
        if recipe.how == "kdump":
            machine.wait_for(capture.last_words)
            machine.wait_for_end()
            _take_copy(machine.console(), work / "vmcore", made / "vmcore")
        else:
            machine.wait_for("bigiron-vmtest: ready")
            machine.monitor("dump-guest-memory", paging=False, protocol=f"file:{made / 'vmcore'}")
        return machine.console()


def _vmcore_disk(recipe: Recipe, work: Path) -> Path:
    """Makes the disk for the copy of /proc/vmcore, large enough for memory and headers."""
    image = work / "vmcore"
    disks.make_raw_disk(image, (recipe.ram_mib + 2) << 20)
    return image


def _capture_disk(kernel: Kernel, initrd: Path, capture: Capture, work: Path) -> Path:
    """Makes the disk with the capture kernel's files: the same kernel and archive, and its mode on the command line.
    The kernel unpacks consecutive archives over each other."""
    tree = work / "capture.tree"
    tree.mkdir()
    shutil.copy(kernel.vmlinuz, tree / "vmlinuz")
    (tree / "initrd").write_bytes(initrd.read_bytes() + capture.overlay)
    image = work / "capture"
    size = sum(file.stat().st_size for file in tree.iterdir())
    disks.make_ext4(image, tree, max(64, (size >> 20) * 5 // 4 + 16))
    return image


def _take_copy(console: str, disk: Path, vmcore: Path) -> None:
    """Cuts the raw disk to the size of /proc/vmcore."""
    sizes = [record["vmcore"] for record in notes.console_records(console) if "vmcore" in record]
    if len(sizes) != 1 or not 0 < sizes[0] <= disk.stat().st_size:
        raise LabError(f"the capture kernel reported sizes {sizes} of /proc/vmcore")
    shutil.move(disk, vmcore)
    with open(vmcore, "r+b") as file:
        file.truncate(sizes[0])


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _vmcoreinfo(vmcore: Path) -> bytes:
    """Returns VMCOREINFO: from a note, or from memory, where QEMU has no device that tells it of the text. Header files
    in the page cache have `OSRELEASE=` as well, but not at the beginning of a line before other keys."""
    with open(vmcore, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        text = re.search(rb"OSRELEASE=[^\0\n]+\n(?:[^\0\n]+=[^\0\n]*\n){20,}", memory)
        if not text:
            raise LabError("no VMCOREINFO in the vmcore")
        return text[0]


def _vmcoreinfo_levels(vmcore: Path, kernel: Kernel) -> int:
    """Returns the number of paging levels according to the vmcore, or 0 if VMCOREINFO does not have it."""
    text = _vmcoreinfo(vmcore)
    five = re.search(rb"^NUMBER\(pgtable_l5_enabled\)=(\d)", text, re.MULTILINE)
    if five:
        return 5 if five[1] == b"1" else 4
    shift = kernel.page_size.bit_length() - 1
    # arm64: the number of address bits that the top half does not have (kernel: arch/arm64/kernel/vmcore_info.c).
    unused = re.search(rb"^NUMBER\(TCR_EL1_T1SZ\)=0x([0-9a-f]+)", text, re.MULTILINE)
    if unused:
        return -(-(64 - int(unused[1], 16) - shift) // (shift - 3))
    # ppc64 has four, with either MMU.
    return 4 if kernel.architecture.debian == "ppc64el" else 0


def _manifest(recipe: Recipe, kernel: Kernel, made: Path, work: Path, console: str) -> dict[str, Any]:
    records = notes.console_records(console)
    frames = next(record["kpageflags"] for record in records if "kpageflags" in record)
    counted = {record["kind"]: record["pages"] for record in records if "kind" in record}
    missing = {record["missing"]: record["why"] for record in records if "missing" in record}
    whole_machine = notes.split(work / "notes", frames, made, kernel.architecture.byte_order)
    for kind, asked in recipe.plan.items():
        if kind in ("compressible", "slab") or kind in missing:
            continue
        # A few of the newest pages may still be in a processor's batch for the LRU lists.
        if counted.get(kind, 0) < asked * 15 // 16:
            raise LabError(
                f"{asked} pages of {kind} were requested, the guest has {counted.get(kind, 0)}: {counted}"
            )
    levels = _vmcoreinfo_levels(made / "vmcore", kernel)
    if levels not in (0, recipe.levels):
        raise LabError(f"the guest ran with {levels} levels of page tables, the recipe requires {recipe.levels}")
    return {
        "recipe": {"name": recipe.name, "version": RECIPE_VERSION, "hash": recipe.hash()},
        "kernel": {"release": kernel.release, "package": kernel.package, "version": kernel.version},
        "paging_levels": recipe.levels,
        "ram_mib": recipe.ram_mib,
        "crashkernel_mib": recipe.crashkernel_mib,
        "pages_at_least": {
            **counted,
            "offline": recipe.balloon,
            "slab": recipe.plan["slab"],
            # The number of free pages changes until the dump.
            "free": whole_machine["free"] // 2,
        },
        "missing": missing,
        "kpageflags": whole_machine,
        "vmcore": {"size": (made / "vmcore").stat().st_size, "sha256": _sha256(made / "vmcore")},
        "made": {
            "how": {"qemu": "QEMU dump-guest-memory", "kdump": "/proc/vmcore copied by the capture kernel"}[recipe.how],
            "command": f"vmtest/vmcores make {recipe.name}",
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "qemu": tools.run([kernel.architecture.qemu, "--version"]).splitlines()[0],
            "host": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
        },
    }
