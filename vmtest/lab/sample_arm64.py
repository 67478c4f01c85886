"""Packs a part of the vmcore of the recipe `sample-arm64` into samples/: the pages that bigiron reads to describe the
kernel, and some of each prepared class. Their contents, the notes and the addresses do not change."""

import itertools
import json
import lzma
import re
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import make, tools
from .recipes import RECIPES
from .sample import SAMPLES

sys.path.append(str(Path(__file__).resolve().parent.parent / "judge"))

from elfcore import ElfCore  # noqa: E402

NAME = "linux-6.12-arm64"
PAGE = 4096
# Of each class, the pages kept: enough for several runs of it.
OF_EACH_CLASS = 16
COMMANDS = (("info", "--all"), ("dmesg",))
PIECE = 256 << 10
# Filters of xz for words of four and eight bytes, for text, for tables of rising numbers of four bytes (kallsyms), and
# for struct pages, each of which has its own address in it (struct list_head).
WORDS = {"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 2, "pb": 2}
TEXT = {"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 4, "lp": 0, "pb": 0}
CHAINS = (
    [WORDS],
    [TEXT],
    [{"id": lzma.FILTER_DELTA, "dist": 4}, WORDS],
    [{"id": lzma.FILTER_DELTA, "dist": 64}, WORDS],
)
PT_LOAD, PT_NOTE = 1, 4


def _read_by(bigiron: Path, command: tuple[str, ...], vmcore: Path) -> Iterator[tuple[int, int]]:
    """Yields offset and size of each read of a command from the vmcore."""
    with tempfile.NamedTemporaryFile("r") as log:
        options = ["--no-sandbox", "--io", "read"]
        tools.run(["strace", "-f", "-s", "0", "-e", "trace=pread64", "-o", log.name, bigiron, *command, *options, vmcore])
        for size, offset in re.findall(r"pread64.*, (\d+), (\d+)\) = \d+$", log.read(), re.MULTILINE):
            yield int(offset), int(size)


def _frames_read(bigiron: Path, vmcore: Path, core: ElfCore) -> set[int]:
    """Returns the page frames that the commands read."""
    frames = set()
    for command in COMMANDS:
        for offset, size in _read_by(bigiron, command, vmcore):
            for segment in core.segments:
                begin, end = max(offset, segment.offset), min(offset + size, segment.offset + segment.filesz)
                if begin < end:
                    first = segment.paddr + begin - segment.offset
                    frames.update(range(first // PAGE, -(-(first + end - begin) // PAGE)))
    return frames


def _prepared(directory: Path, present: set[int]) -> dict[int, str]:
    """Returns page frames of each class, with its name: those of the guest's list, and free ones."""
    chosen: dict[int, str] = {}
    for line in (directory / "pages.txt").read_text().splitlines():
        kind, _, run = line.partition(" ")
        first, _, last = run.partition("-")
        taken = sum(name == kind for name in chosen.values())
        frames = [pfn for pfn in range(int(first), int(last or first) + 1) if pfn in present]
        chosen.update((pfn, kind) for pfn in frames[: OF_EACH_CLASS - taken])
    return chosen


def _runs(frames: set[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for pfn in sorted(frames):
        if runs and runs[-1][1] == pfn:
            runs[-1] = (runs[-1][0], pfn + 1)
        else:
            runs.append((pfn, pfn + 1))
    return runs


def _core_of(core: ElfCore, frames: set[int]) -> Iterator[bytes]:
    """Yields an ELF core of these page frames in parts: the source's header and notes, and a PT_LOAD for each run."""
    texts = [bytes(core.map[header[2] : header[2] + header[5]]) for header in core.raw_headers if header[0] == PT_NOTE]
    runs = _runs(frames)
    at = 64 + 56 * (len(texts) + len(runs))
    headers, body = [], b""
    for text in texts:
        headers.append(struct.pack("<IIQQQQQQ", PT_NOTE, 0, at + len(body), 0, 0, len(text), len(text), 0))
        body += text
    body += b"\0" * (-(at + len(body)) % PAGE)
    at += len(body)
    for first, end in runs:
        size = (end - first) * PAGE
        segment = next(s for s in core.segments if s.paddr <= first * PAGE < s.paddr + s.filesz)
        virtual = (segment.vaddr + first * PAGE - segment.paddr) % (1 << 64)
        headers.append(struct.pack("<IIQQQQQQ", PT_LOAD, 7, at, virtual, first * PAGE, size, size, 0))
        at += size
    header = bytearray(core.map[:64])
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<H", header, 56, len(headers))
    yield bytes(header) + b"".join(headers) + body
    for first, end in runs:
        yield b"".join(core.read(pfn * PAGE, PAGE) for pfn in range(first, end))


def _packed(core: bytes) -> Iterator[bytes]:
    """Yields streams of xz, of which a file may have several: one for all pieces in a row that one chain of filters
    compresses best."""
    pieces = (core[at : at + PIECE] for at in range(0, len(core), PIECE))
    for chain, joined in itertools.groupby(pieces, _best_chain):
        words = [*CHAINS[chain][:-1], CHAINS[chain][-1] | {"preset": 9 | lzma.PRESET_EXTREME}]
        yield lzma.compress(b"".join(joined), check=lzma.CHECK_CRC32, filters=words)


def _best_chain(piece: bytes) -> int:
    """Returns the place in CHAINS of the filters that compress this piece best."""
    sizes = [len(lzma.compress(piece, lzma.FORMAT_RAW, filters=chain)) for chain in CHAINS]
    return sizes.index(min(sizes))


def pack(bigiron: Path) -> list[Path]:
    """Packs the sample with the pages that this bigiron reads."""
    tools.need("strace")
    made = make.make(RECIPES["sample-arm64"])
    core = ElfCore(made / "vmcore")
    present = {
        pfn for s in core.segments for pfn in range(-(-s.paddr // PAGE), (s.paddr + s.filesz) // PAGE)
    }
    prepared = _prepared(made, present)
    frames = (_frames_read(bigiron, made / "vmcore", core) | set(prepared)) & present
    (SAMPLES / f"{NAME}.elf.xz").write_bytes(b"".join(_packed(b"".join(_core_of(core, frames)))))
    (SAMPLES / f"{NAME}.pages.txt").write_text("".join(f"{prepared[pfn]} {pfn}\n" for pfn in sorted(prepared)))
    console = (made / "console.log").read_text()
    crash = console.partition("sysrq: Trigger a crash")[2].partition("Starting crashdump kernel")[0]
    (SAMPLES / f"{NAME}.console.txt").write_text("sysrq: Trigger a crash" + crash)
    manifest = json.loads((made / "manifest.json").read_text())
    manifest["pages"] = {"read": len(frames - set(prepared)), "prepared": len(prepared)}
    (SAMPLES / f"{NAME}.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return [SAMPLES / f"{NAME}.{end}" for end in ("elf.xz", "pages.txt", "console.txt", "json")]
