"""A guest whose disks fail: with bad sectors at random, with writes that fail, full, and removed."""

import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import disks, initramfs, kernels, notes, program, qemu, tools
from lab.errors import LabError
from storm.parts import Results

from . import killing, sectors

INIT = Path(__file__).resolve().parent.parent / "guest-losses" / "init"
SERIES = "6.12"
RAM_MIB = 768
SECONDS = 900
MODULES = ("dm-mod", "dm-flakey")
DEVICE_SIZE = 48 << 20
DUMP = ("dump", "-q", "-f", "vmdump", "-d", "1", "--chunk-size", "64K")

Record = dict[str, Any]


@dataclass
class Images:
    """The disks, and the most pages that each round may miss."""

    disks: list[Path]
    tables: dict[str, bytes] = field(default_factory=dict)
    allowed: dict[str, int] = field(default_factory=dict)


def _device(bigiron: Path, core: Path, image: Path, whole: bool) -> None:
    """Makes a dump device; one that is not whole is interrupted by SIGTERM, as when its time is up."""
    disks.make_raw_disk(image, DEVICE_SIZE)
    if whole:
        tools.run([bigiron, *DUMP, "--device", core, image])
        return
    words = [bigiron, *DUMP, "--write-limit", "200K", "--device", core, image]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    while process.poll() is None and killing.written([image]) < 500 << 10:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    if process.wait() != 128 + signal.SIGTERM:
        raise LabError(f"the dump that is interrupted ended with {process.returncode}")


def _ext4(image: Path, files: dict[str, Path], mebibytes: int) -> None:
    tree = image.with_suffix(".tree")
    tree.mkdir()
    for name, path in files.items():
        (tree / name).write_bytes(path.read_bytes())
    disks.make_ext4(image, tree, mebibytes)


def _blocks(image: Path, name: str) -> list[int]:
    """Returns the blocks of a file in an ext4 image, in order."""
    debugfs = tools.find("debugfs") or "debugfs"
    return [int(word) for word in tools.run([debugfs, "-R", f"blocks /{name}", image]).split()]


def make(bigiron: Path, core: Path, work: Path, rounds: int, seed: int) -> Images:
    """Makes the disks, and the tables of all rounds."""
    tools.need("mke2fs")
    images = [work / f"disk{number}" for number in range(6)]
    _device(bigiron, core, images[0], whole=True)
    _device(bigiron, core, images[1], whole=False)
    cut = work / "cut"
    tools.run([bigiron, *DUMP, core, cut])
    with open(cut, "r+b") as file:
        file.truncate(cut.stat().st_size * 7 // 10)
    files = {"cut": cut, "core": core}
    _ext4(images[2], files, 64)
    _ext4(images[3], files, 512)
    _ext4(images[4], {}, 4)
    disks.make_raw_disk(images[5], DEVICE_SIZE)
    made = Images(images)
    for number in range(rounds):
        _round(made, cut, random.Random(f"{seed}/{number}"), number)
    return made


def _round(made: Images, cut: Path, dice: random.Random, number: int) -> None:
    for place, kind in enumerate(("save-whole", "save-interrupted")):
        chunks = sectors.chunks(made.disks[place])
        # Without the first blocks, which have the headers of device and dump: these are not repeated.
        bad = sectors.choose(dice, range(chunks[0].end // sectors.BLOCK + 1, chunks[-1].end // sectors.BLOCK))
        _add(made, f"{kind}-{number}", place, bad, sectors.pages_hit(chunks, bad))
    for name, kind in (("cut", "repair"), ("core", "dump")):
        blocks = _blocks(made.disks[2], name)
        chosen = sectors.choose(dice, range(2, len(blocks)))
        # A page of the core that is not aligned to blocks lies in two of them.
        pages = sectors.pages_hit(sectors.chunks(cut), chosen) if name == "cut" else 2 * len(chosen)
        _add(made, f"{kind}-{number}", 2, sorted(blocks[place] for place in chosen), pages)


def _add(made: Images, name: str, place: int, bad: list[int], pages: int) -> None:
    size = made.disks[place].stat().st_size
    made.tables[name] = sectors.table(f"/dev/vd{'abcdef'[place]}", size, bad)
    made.allowed[name] = pages


def _archive(static: Path, kernel: kernels.Kernel, made: Images) -> bytes:
    tools.need("dmsetup")
    archive = initramfs.Archive()
    for directory in ("dev", "sbin", "modules", "tables"):
        archive.add_directory(directory)
    archive.add_console()
    archive.add_file("busybox", tools.static_busybox().read_bytes(), executable=True)
    archive.add_file("init", INIT.read_bytes(), executable=True)
    archive.add_file("bigiron", static.read_bytes(), executable=True)
    initramfs.add_programs(archive, {"sbin/dmsetup": Path(tools.find("dmsetup") or "dmsetup")})
    for place, (name, content) in enumerate(initramfs.modules(kernel, [*initramfs.MODULES, *MODULES])):
        archive.add_file(f"modules/{place:02}-{name}.ko", content)
    for name, table in made.tables.items():
        archive.add_file(f"tables/{name}", table)
    return archive.finish()


def _saved(record: Record, allowed: int) -> str:
    """Judges a save: what can be read is saved, and the dump stays where it is unless all of it was."""
    first, second = record["missing_first"], record["missing_second"]
    if first > allowed:
        return f"{first} pages are missing in the copy, the bad sectors have at most {allowed}"
    if first < 0 and second < 0:
        return "there is no copy, and the dump is gone"
    if first != 0 and second != 0:
        return f"{first} pages are missing in the copy, and the dump cannot be saved again when the disk is well"
    return ""


def _judge(record: Record, made: Images) -> str:
    name, status = record["run"], record["status"]
    if status not in (0, 1):
        return f"exit status {status}"
    if name.startswith("save-"):
        return _saved(record, made.allowed[name])
    if name in made.allowed:
        missing, allowed = record["missing"], made.allowed[name]
        return "" if 0 <= missing <= allowed else f"{missing} pages are missing, allowed are {allowed}"
    checks: dict[str, Callable[[], bool]] = {
        "flakey": lambda: status == 0 and record["verified"] == 0,
        "full dump": lambda: status == 1,
        "full save": lambda: status == 1 and record["left"] == 0,
        "full repair": lambda: record["missing"] == 0,
        "vanished": lambda: status == 1,
    }
    check = next(check for key, check in checks.items() if name.startswith(key))
    return "" if check() else f"{record}"


def run(bigiron: Path, static: Path | None, core: Path, work: Path, rounds: int, seed: int, results: Results) -> None:
    """Runs the guest, and judges its records."""
    kernel = kernels.get(SERIES)
    static = program.static(static)
    made = make(bigiron, core, work, rounds, seed)
    with tempfile.TemporaryDirectory(prefix="bigiron-losses-guest.") as directory:
        initrd = Path(directory) / "initrd"
        initrd.write_bytes(_archive(static, kernel, made))
        with qemu.Machine(
            Path(directory), kernel=kernel.vmlinuz, initrd=initrd, command_line="", ram_mib=RAM_MIB, levels=4,
            disks=made.disks, timeout=SECONDS + 60 * rounds, accel=qemu.accelerator(4),
        ) as machine:  # fmt: skip
            machine.wait_for_end()
            console = machine.console()
    records = notes.console_records(console)
    for record in records:
        if "run" in record:
            wrong = _judge(record, made)
            results.record(f"{record['run']} (seed {seed})", f"    {wrong}" if wrong else "")
    if not any("end" in record for record in records):
        raise LabError(f"the guest did not come to its end\n{console[-3000:]}")
    ran = {record.get("run") for record in records}
    for name in made.tables.keys() - ran:
        results.record(name, "    it did not run")
