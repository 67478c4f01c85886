"""The guest's disks, made on the host without mounting anything."""

import lzma
import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import tools
from .kernels import Kernel
from .notes import NOTES_SIZE
from .recipes import Recipe


def _module_files(kernel: Kernel) -> Iterator[bytes]:
    """Yields real files to fill the page cache: machine code, symbol tables, strings."""
    for path in sorted(kernel.modules.rglob("*.ko*")):
        content = path.read_bytes()
        yield lzma.decompress(content) if path.suffix == ".xz" else content


def _log_lines() -> Iterator[bytes]:
    """Yields endless text similar to a server's log, the same for each call."""
    dice = random.Random(6)
    programs = ["sshd", "cron", "kernel", "postfix/smtpd", "systemd", "dbus-daemon", "nginx", "dhclient"]
    events = ["session opened for", "connection closed by", "lease renewed from", "timeout on"]
    seconds = 0
    while True:
        lines = []
        for _ in range(2000):
            bits = dice.getrandbits(64)
            seconds += bits & 1
            lines.append(
                f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02} host{bits >> 1 & 7} "
                f"{programs[bits >> 4 & 7]}[{bits >> 8 & 0x7FFF}]: {events[bits >> 24 & 3]} {bits >> 32:08x}\n"
            )
        yield "".join(lines).encode()


def _write_file(path: Path, size: int, *sources: Iterator[bytes]) -> None:
    """Writes the sources in sequence, up to `size` bytes."""
    left = size
    with open(path, "wb") as file:
        for source in sources:
            for piece in source:
                file.write(piece[:left])
                left -= min(len(piece), left)
                if left == 0:
                    return


def make_data_disk(image: Path, recipe: Recipe, kernel: Kernel, more: Mapping[str, bytes] | None = None) -> None:
    """Makes an ext4 image with a file that the guest reads, a file that loses a page, the files in `more`, and room for
    files that the guest writes."""
    tools.need("mke2fs")
    tree = image.with_suffix(".tree")
    tree.mkdir()
    page = kernel.page_size
    cached = recipe.plan["cache_clean"] * page
    real_files = iter(()) if recipe.plan.get("compressible") else _module_files(kernel)
    _write_file(tree / "clean", cached, real_files, _log_lines())
    _write_file(tree / "poison", 16 * page, _log_lines())
    for name, content in (more or {}).items():
        (tree / name).write_bytes(content)
        cached += len(content)
    written = (recipe.plan["cache_private_clean"] + recipe.plan["cache_private_dirty"]) * page
    make_ext4(image, tree, (cached + written) // (1 << 20) * 5 // 4 + 32)


def make_ext4(image: Path, tree: Path, mebibytes: int) -> None:
    """Makes an image with a copy of `tree`, which is removed."""
    # In Debian's kernels, crc32c is a module; ext4 requires it if the disk has metadata checksums.
    mke2fs = tools.find("mke2fs") or "mke2fs"
    tools.run([mke2fs, "-q", "-t", "ext4", "-b", "4096", "-O", "^metadata_csum", "-d", tree, image, f"{mebibytes}M"])
    shutil.rmtree(tree)


def format_ext4(image: Path) -> None:
    """Makes an empty ext4 in an existing image, without features that need modules."""
    mke2fs = tools.find("mke2fs") or "mke2fs"
    tools.run([mke2fs, "-q", "-t", "ext4", "-b", "4096", "-O", "^metadata_csum", "-F", image])


def make_raw_disk(image: Path, size: int) -> None:
    """Makes a sparse file, in whole mebibytes."""
    with open(image, "wb") as file:
        file.truncate(-(-size >> 20) << 20)


def make_notes_disk(image: Path) -> None:
    make_raw_disk(image, NOTES_SIZE)
