"""Bad sectors: chosen at random in the parts of a disk that belong to a dump, as tables of device-mapper."""

import random
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SECTOR = 512
BLOCK = 4096
CHUNK = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18....VMDchunk", re.DOTALL)


@dataclass(frozen=True)
class Chunk:
    """A chunk of a vmdump: its extent in the image, and its number of pages."""

    start: int
    end: int
    pages: int


def chunks(image: Path, base: int = 0) -> list[Chunk]:
    """Returns the chunks of pages in an image, found by their headers. Offsets are those in the image, less `base`."""
    data = image.read_bytes()
    found = []
    for match in CHUNK.finditer(data):
        at = match.start()
        length = 8 + struct.unpack_from("<I", data, at + 4)[0]
        kind, = struct.unpack_from("<B", data, at + 24)
        packed, = struct.unpack_from("<I", data, at + 28)
        size, = struct.unpack_from("<Q", data, at + 48)
        if kind == 2:
            found.append(Chunk(at - base, at + length + packed - base, size // BLOCK))
    return found


def choose(dice: random.Random, blocks: Iterable[int]) -> list[int]:
    """Returns some runs of the blocks, which have 4 KiB each."""
    able = list(blocks)
    bad: set[int] = set()
    for _ in range(dice.choice((1, 1, 2, 4))):
        first = dice.randrange(len(able))
        bad.update(able[first : first + dice.choice((1, 1, 2, 5))])
    return sorted(bad)


def table(disk: str, size: int, bad: list[int]) -> bytes:
    """Returns the table of a device of `size` bytes that is `disk`, except for its bad blocks."""
    lines, at = [], 0
    per_block = BLOCK // SECTOR
    for block in bad:
        start = block * per_block
        if start > at:
            lines.append(f"{at} {start - at} linear {disk} {at}")
        lines.append(f"{start} {per_block} error")
        at = start + per_block
    if size // SECTOR > at:
        lines.append(f"{at} {size // SECTOR - at} linear {disk} {at}")
    return ("\n".join(lines) + "\n").encode()


def pages_hit(dump: list[Chunk], bad: list[int]) -> int:
    """Returns the number of pages in chunks that lie in a bad block, even in part."""
    def hit(chunk: Chunk) -> bool:
        return any(chunk.start < (block + 1) * BLOCK and block * BLOCK < chunk.end for block in bad)

    return sum(chunk.pages for chunk in dump if hit(chunk))
