"""The dumps that are changed: each format, made once of a core."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import tools

# A key made for these tests only.
SECRET = "AGE-SECRET-KEY-17DGKC3QW843TMTD4AZH66QTA5L7J4ZZX272NZ7CUL645XRXKASMSG3YA7R"
PUBLIC = "age14gz6ry09dp79qv2nu9afrlrfh98z8dqqghqgr9dr39fqedtvvcgqchec49"
DEVICE_SIZE = 8 << 20


@dataclass(frozen=True)
class Format:
    """A format, and the way to write it."""

    name: str
    base: str  # the core: machine or state
    options: tuple[str, ...] = ()  # of bigiron dump; none for the core itself
    parts: str = ""  # the option that names several outputs
    device: bool = False
    encrypted: bool = False
    # Every byte of a page is covered by a checksum, so that a wrong page is a defect.
    checked: bool = False
    vmdump: bool = False
    weight: int = 1


def _vmdump(name: str, base: str, *options: str, **more: object) -> Format:
    return Format(name, base, ("-f", "vmdump", *options), checked=True, vmdump=True, **more)  # type: ignore[arg-type]


SMALL_CHUNKS = ("--chunk-size", "64K")
FORMATS = (
    Format("elf", "machine", weight=2),
    Format("elf-state", "state", weight=4),
    Format("kdump-zlib", "machine", ("-d", "1", "-c", "zlib")),
    Format("kdump-lzo", "machine", ("-d", "1", "-c", "lzo")),
    Format("kdump-snappy", "machine", ("-d", "31", "-c", "snappy")),
    Format("kdump-zstd", "machine", ("-d", "1", "-c", "zstd")),
    Format("kdump-state", "state", ("-d", "1", "-c", "lzo")),
    Format("flattened", "machine", ("-f", "flattened", "-d", "1", "-c", "lzo")),
    _vmdump("vmdump-zstd", "machine", "-d", "1", *SMALL_CHUNKS, weight=2),
    _vmdump("vmdump-bzip2", "machine", "-d", "1", "-c", "bzip2", *SMALL_CHUNKS, weight=2),
    _vmdump("vmdump-state", "state", "-d", "1"),
    _vmdump("striped", "machine", "-d", "1", *SMALL_CHUNKS, parts="--stripe"),
    Format("split", "machine", ("-d", "1", "-c", "lzo"), parts="--split"),
    _vmdump("device", "machine", "-d", "1", "--device", *SMALL_CHUNKS, device=True),
    Format("device-kdump", "machine", ("-d", "1", "-c", "lzo", "--device"), device=True),
    _vmdump("encrypted", "machine", "-d", "1", "--encrypt", PUBLIC, *SMALL_CHUNKS, encrypted=True),
)
BY_NAME = {one.name: one for one in FORMATS}


def make(one: Format, bigiron: Path, core: Path, into: Path) -> list[Path]:
    """Makes the dump in a new directory; returns its parts. One helper writes it, so that it is nearly the same in
    each run: its id and its times differ."""
    into.mkdir(parents=True)
    if not one.options:
        path = into / "dump"
        os.link(core, path)
        return [path]
    count = 2 if one.parts else 1
    outputs = [into / (f"part{number}" if one.parts else "dump") for number in range(count)]
    if one.device:
        for output in outputs:
            with open(output, "wb") as file:
                file.truncate(DEVICE_SIZE)
    named: Sequence[str | Path] = [one.parts, ",".join(map(str, outputs))] if one.parts else []
    last = [] if one.parts else outputs
    tools.run([bigiron, "dump", "-q", "-j", "1", *one.options, *named, core, *last])
    return outputs


def identity(directory: Path) -> Path:
    """Returns the file with the secret key."""
    path = directory / "identity"
    path.write_text(SECRET + "\n")
    return path
