#!/usr/bin/env python3
"""Writes the memory and registers of QEMU's ELF core of x86-64 in formats that no kernel writes.

These writers share no code with the project. The registers are those of QEMU's own notes.
"""

from __future__ import annotations

import argparse
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

import bits
from elfcore import ElfCore
from verdict import CannotJudge

BLOCK = 4096
GENERAL = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rsp", "rbp",
           "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip", "rflags")
# The order of the registers in a state of system management RAM, from offset 796 on.
SAVED = ("r15", "r14", "r13", "r12", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi")
SEGMENTS = ("cs", "ds", "es", "fs", "gs", "ss", "ldt", "tr", "gdt", "idt")
LONG_MODE = 0xD01


@dataclass(frozen=True)
class Cpu:
    """The registers of a CPU; those of segments are their selectors, and those of tables their addresses."""

    values: dict[str, int]

    @classmethod
    def of_note(cls, data: bytes) -> Cpu:
        values = dict(zip(GENERAL, struct.unpack_from("<18Q", data, 8)))
        for index, name in enumerate(SEGMENTS):
            selector, limit, _, _, base = struct.unpack_from("<4IQ", data, 152 + 24 * index)
            values |= {name: selector, f"{name}_limit": limit, f"{name}_base": base}
        return cls(values | dict(zip(("cr0", "cr1", "cr2", "cr3", "cr4"), struct.unpack_from("<5Q", data, 392))))


def cpus_of(core: ElfCore) -> list[Cpu]:
    found = [Cpu.of_note(note.data) for note in core.notes() if note.name == "QEMU"]
    if not found or core.machine != 62:
        raise CannotJudge(f"{core.path.name} has no registers of QEMU for x86-64")
    return found


def state(cpu: Cpu) -> bytes:
    """Returns the state that system management RAM has of a CPU."""
    out = bytearray(1024)
    value = cpu.values
    for index, name in enumerate(SAVED):
        struct.pack_into("<Q", out, 796 + 8 * index, value[name])
    for at, name in enumerate(("es", "cs", "ss", "ds", "fs", "gs", "ldt", "tr")):
        struct.pack_into("<I", out, 936 + 4 * at, value[name])
    for name, low, high in (("gdt", 652, 464), ("idt", 660, 472)):
        struct.pack_into("<I", out, low, value[f"{name}_base"] & 0xFFFFFFFF)
        struct.pack_into("<I", out, high, value[f"{name}_base"] >> 32)
        struct.pack_into("<I", out, low + 4, value[f"{name}_limit"])
    struct.pack_into("<I", out, 576, value["cr4"])
    for at, number in ((984, value["rip"]), (992, LONG_MODE), (1000, value["rflags"]), (1008, value["cr3"]),
                       (1016, value["cr0"])):
        struct.pack_into("<Q", out, at, number)
    return bytes(out)


def bitmap(pages: int, count: int) -> bytes:
    """Returns a bitmap in blocks, whose bytes begin with the most significant bit."""
    turned = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
    size = -(-count // 8 // BLOCK) * BLOCK
    return pages.to_bytes(size, "little").translate(turned)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def identifier(text: str) -> bytes:
    return text.encode().ljust(16, b".")


def partition(number: int, used: int) -> bytes:
    """Returns the header of disk `number` of a set, or with number 0 of the only partition."""
    out = bytearray(BLOCK)
    out[:8] = b"sadump\0\0"
    for at, text in ((88, "system"), (104, "set"), (120, f"disk{number}")):
        out[at : at + 16] = identifier(text)
    struct.pack_into("<IIQ", out, 152, number, 0, used)
    word = 0x2468ACE1
    for at in range(168, BLOCK, 4):
        struct.pack_into("<I", out, at, word)
        word = (word + 7) * 11 % (1 << 32)
    return bytes(out)


def sadump(core: ElfCore, targets: list[Path]) -> None:
    """Writes a dump of firmware: on one partition, or on a set of several disks."""
    cpus = cpus_of(core)
    ram = core.present()
    count = ram.bit_length()
    frames = list(bits.members(ram))
    zeros = bytes(BLOCK)
    frames = [frame for frame in frames if core.read(frame * BLOCK, BLOCK) != zeros]
    present = bytearray(-(-count // 8))
    for frame in frames:
        present[frame // 8] |= 1 << frame % 8
    dumped = int.from_bytes(present, "little")
    bitmaps = bitmap(ram, count) + bitmap(dumped, count)
    sub_header = struct.pack("<I", 1024 * len(cpus))
    sub_header += b"".join(struct.pack("<2Q", number, 1 << number) for number in range(len(cpus)))
    sub_header = padded(sub_header + b"".join(map(state, cpus)))
    header = bytearray(BLOCK)
    header[:8] = b"sadump\0\0"
    blocks = len(bitmaps) // 2 // BLOCK
    struct.pack_into("<IHBBBBBBIhBB", header, 8, 1, 2026, 1, 2, 3, 4, 5, 0, 0, 2047, 0, 0)
    struct.pack_into("<IIIIIII", header, 40, BLOCK, 0, len(sub_header) // BLOCK, blocks, blocks, count, len(frames))
    struct.pack_into("<II", header, 76, 0, len(cpus))
    struct.pack_into("<QQQQ", header, 88, count, ram.bit_count(), 0, len(frames))
    front = bytes(header) + sub_header + bitmaps
    is_set = len(targets) > 1
    if is_set:
        volumes = bytearray(BLOCK)
        struct.pack_into("<II", volumes, 0, 1, len(targets))
        for number in range(2, len(targets) + 1):
            at = 16 + 32 * (number - 2)
            volumes[at : at + 16] = identifier(f"disk{number}")
        front = bytes(volumes) + front
    share = -(-len(frames) // len(targets))
    for index, target in enumerate(targets):
        some = frames[index * share : (index + 1) * share]
        start = front if index == 0 else b""
        used = BLOCK + len(start) + len(some) * BLOCK
        with open(target, "wb") as file:
            file.write(partition(index + 1 if is_set else 0, used))
            file.write(start)
            for frame in some:
                file.write(core.read(frame * BLOCK, BLOCK))


def lime(core: ElfCore, target: Path) -> None:
    """Writes LiME's format."""
    with open(target, "wb") as file:
        for segment in sorted(core.segments, key=lambda segment: segment.paddr):
            last = segment.paddr + segment.filesz - 1
            file.write(struct.pack("<4sIQQQ", b"EMiL", 1, segment.paddr, last, 0))
            file.write(core.read(segment.paddr, segment.filesz))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("form", choices=("sadump", "lime"))
    parser.add_argument("core", type=Path)
    parser.add_argument("targets", type=Path, nargs="+")
    arguments = parser.parse_args()
    core = ElfCore(arguments.core)
    if arguments.form == "sadump":
        sadump(core, arguments.targets)
    else:
        lime(core, arguments.targets[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
