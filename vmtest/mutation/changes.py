"""Random changes of a dump's files, each reproducible from its random numbers."""

import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

PAGE = 4096
VALUES = (0x00, 0xFF, 0x7F, 0x80)
NUMBERS = (0, 1, -1, 2, 0x7F, 0x80, 0xFFFF, 1 << 31, (1 << 31) - 1, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63)
INFO_NUMBER = re.compile(rb"=(-?[0-9a-fx]+)\n")
# Bits of a page table entry on x86-64: present and accessed, and a frame below 1 GiB.
ENTRY_FLAGS, ENTRY_MASK = 0x21, 0x7FFF_FFFF_C000_0F21


@dataclass
class Files:
    """The files of the dump that is changed, and bytes of another dump."""

    parts: list[bytearray]
    other: bytes
    # File sizes beyond the bytes: a sparse tail.
    tails: dict[int, int]


def _place(dice: random.Random, data: bytearray, width: int = 1) -> int:
    """Returns an offset: anywhere, or near the start or the end, where headers are."""
    room = max(len(data) - width, 0)
    kind = dice.randrange(5)
    if kind < 2:
        return dice.randint(0, min(room, 2 * PAGE if kind else 512))
    if kind == 2:
        return dice.randint(max(0, room - 2 * PAGE), room)
    return dice.randint(0, room)


def _extent(dice: random.Random, data: bytearray) -> tuple[int, int]:
    """Returns offset and length of a block: often whole sectors or pages."""
    unit = dice.choice((1, 512, PAGE, PAGE))
    at = _place(dice, data) // unit * unit
    length = unit * (dice.randint(1, 256) if unit == 1 else dice.choice((1, 1, 2, 4, 16, 64)))
    return at, max(min(length, len(data) - at), 0)


def flip_bits(dice: random.Random, files: Files, data: bytearray) -> str:
    places = [_place(dice, data) for _ in range(dice.choice((1, 1, 2, 8, 64)))]
    for at in places:
        data[at] ^= 1 << dice.randrange(8)
    return f"bits flipped at {places[:4]}"


def set_bytes(dice: random.Random, files: Files, data: bytearray) -> str:
    at, value = _place(dice, data), dice.choice(VALUES)
    length = min(dice.choice((1, 1, 2, 4, 8, 16)), len(data) - at)
    data[at : at + length] = bytes([value]) * length
    return f"{length} bytes {value:#x} at {at}"


def set_number(dice: random.Random, files: Files, data: bytearray) -> str:
    """Sets a field to a number at which arithmetic goes wrong."""
    width = dice.choice((2, 4, 4, 8, 8))
    at = _place(dice, data, width) // width * width
    old = int.from_bytes(data[at : at + width], "little")
    size = len(data)
    value = dice.choice((*NUMBERS, size - 1, size, size + 1, old + 1, old - 1, old * 2, old << 8, old ^ 1 << 31))
    order = "big" if dice.randrange(8) == 0 else "little"
    data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, order)  # type: ignore[arg-type]
    return f"number {value:#x} of {width} bytes at {at}"


def truncate(dice: random.Random, files: Files, data: bytearray) -> str:
    at = _place(dice, data)
    del data[at:]
    return f"truncated at {at}"


def hole(dice: random.Random, files: Files, data: bytearray) -> str:
    """Replaces the end by a hole, as a file system does after a power failure; at times by one that is much longer."""
    at = _place(dice, data)
    size = len(data)
    del data[at:]
    number = next(number for number, part in enumerate(files.parts) if part is data)
    files.tails[number] = dice.choice((size, size, size + PAGE, 64 << 20))
    return f"a hole from {at} to {files.tails[number]}"


def zero_block(dice: random.Random, files: Files, data: bytearray) -> str:
    at, length = _extent(dice, data)
    data[at : at + length] = bytes(length)
    return f"zeros at {at}+{length}"


def duplicate_block(dice: random.Random, files: Files, data: bytearray) -> str:
    at, length = _extent(dice, data)
    data[at:at] = data[at : at + length]
    return f"twice: {at}+{length}"


def copy_block(dice: random.Random, files: Files, data: bytearray) -> str:
    at, length = _extent(dice, data)
    to = min(_place(dice, data), len(data) - length)
    data[to : to + length] = data[at : at + length]
    return f"{at}+{length} copied to {to}"


def swap_blocks(dice: random.Random, files: Files, data: bytearray) -> str:
    at, length = _extent(dice, data)
    to = min(_place(dice, data), len(data) - length)
    data[at : at + length], data[to : to + length] = data[to : to + length], data[at : at + length]
    return f"{at}+{length} exchanged with {to}"


def remove_block(dice: random.Random, files: Files, data: bytearray) -> str:
    at, length = _extent(dice, data)
    del data[at : at + length]
    return f"removed: {at}+{length}"


def insert_block(dice: random.Random, files: Files, data: bytearray) -> str:
    at, length = _extent(dice, data)
    data[at:at] = dice.randbytes(length) if dice.randrange(2) else bytes(length)
    return f"inserted: {at}+{length}"


def change_info(dice: random.Random, files: Files, data: bytearray) -> str:
    """Changes a number in the text of VMCOREINFO."""
    start = data.find(b"OSRELEASE=")
    found = list(INFO_NUMBER.finditer(data, start, start + 8192)) if start >= 0 else []
    if not found:
        return set_number(dice, files, data)
    one = dice.choice(found)
    old = bytes(one[1])
    new = dice.choice((
        b"f" * len(old), b"0" * len(old), b"9" * len(old), b"-" + old[1:], old[:-1] + b"0", old[::-1],
        bytes(dice.choice(found)[1])[: len(old)].rjust(len(old), b"0"),
    ))  # fmt: skip
    data[one.start(1) : one.end(1)] = new
    return f"VMCOREINFO: {old.decode()} is {new.decode()}"


def _words(data: bytearray, at: int) -> tuple[int, ...]:
    at = at // PAGE * PAGE
    return struct.unpack_from(f"<{min(PAGE, len(data) - at) // 8}Q", data, at)


def change_pointers(dice: random.Random, files: Files, data: bytearray) -> str:
    """Changes kernel addresses in a page: to others of them, to their neighbours, to nonsense."""
    for _ in range(64):
        at = dice.randrange(max(len(data), 1)) // PAGE * PAGE
        words = _words(data, at)
        found = [index for index, word in enumerate(words) if word >> 47 == 0x1FFFF and word & 0xFFFF_FFFF]
        if len(found) < 2:
            continue
        chosen = dice.sample(found, min(len(found), dice.choice((1, 1, 2, 8))))
        for index in chosen:
            old = words[index]
            value = dice.choice((words[dice.choice(found)], old + 8, old - 8, 0, (1 << 64) - 1, old ^ 1 << dice.randrange(47)))
            struct.pack_into("<Q", data, at + 8 * index, value % (1 << 64))
        return f"pointers in the page at {at}, words {chosen}"
    return set_number(dice, files, data)


def alias_table(dice: random.Random, files: Files, data: bytearray) -> str:
    """Lets all entries of a page table lead to one page."""
    found = []
    for at in range(0, len(data) - PAGE, PAGE):
        words = _words(data, at)
        entries = [word for word in words if word & ENTRY_MASK == ENTRY_FLAGS]
        if len(entries) >= 2 and len(entries) + words.count(0) == len(words):
            found.append((at, entries))
    if not found:
        return set_number(dice, files, data)
    at, entries = dice.choice(found)
    data[at : at + PAGE] = struct.pack("<Q", dice.choice(entries)) * (PAGE // 8)
    return f"one entry in the whole page table at {at}"


def splice(dice: random.Random, files: Files, data: bytearray) -> str:
    """Continues with another dump."""
    at = _place(dice, data)
    source = dice.choice((at, at, dice.randrange(len(files.other))))
    if dice.randrange(2):
        length = min(dice.choice((512, PAGE, 16 * PAGE)), len(data) - at)
        data[at : at + length] = files.other[source : source + length]
        return f"{length} bytes of another dump at {at}, its {source}"
    data[at:] = files.other[source:]
    return f"another dump from {at} on, its {source}"


def records(data: bytearray) -> list[tuple[int, int]]:
    """Returns offset and length of the records of a vmdump or a flattened dump, with what lies between them."""
    starts = [match.start() for match in re.finditer(rb"[\x50-\x5f]\x2a\x4d\x18....VMD", data, re.DOTALL)]
    if not starts and data[:12] == b"makedumpfile":
        at = PAGE
        while at + 16 < len(data):
            starts.append(at)
            length = int.from_bytes(data[at + 8 : at + 16], "big")
            at += 16 + length
    return list(zip(starts, (end - start for start, end in zip(starts, [*starts[1:], len(data)]))))


def reorder_records(dice: random.Random, files: Files, data: bytearray) -> str:
    """Exchanges, repeats or removes records."""
    found = records(data)
    if len(found) < 3:
        return swap_blocks(dice, files, data)
    one, two = sorted(dice.sample(range(len(found)), 2))
    pieces = [bytes(data[at : at + length]) for at, length in found]
    kind = dice.choice(("exchanged", "again", "removed", "moved"))
    if kind == "exchanged":
        pieces[one], pieces[two] = pieces[two], pieces[one]
    elif kind == "again":
        pieces.insert(one, pieces[two])
    elif kind == "removed":
        del pieces[one]
    else:
        pieces.append(pieces.pop(one))
    data[found[0][0] :] = b"".join(pieces)
    return f"records {kind}: {one} and {two} of {len(found)}"


Change = Callable[[random.Random, Files, bytearray], str]
CHANGES: tuple[tuple[Change, int], ...] = (
    (flip_bits, 3), (set_bytes, 2), (set_number, 6), (truncate, 3), (hole, 2), (zero_block, 3), (duplicate_block, 1),
    (copy_block, 2), (swap_blocks, 2), (remove_block, 1), (insert_block, 1), (change_info, 3), (change_pointers, 4),
    (alias_table, 2), (splice, 2), (reorder_records, 3),
)  # fmt: skip
# Those that concern the memory itself, which only a core has uncompressed.
OF_MEMORY = (change_info, change_pointers, alias_table)


def change(dice: random.Random, files: Files, is_core: bool) -> list[str]:
    """Changes the files one to three times; returns what was done."""
    said = []
    changes = [(one, weight) for one, weight in CHANGES if is_core or one not in OF_MEMORY[1:]]
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        number = dice.randrange(len(files.parts))
        data = files.parts[number]
        if len(data) < 64:
            continue
        (one,) = dice.choices([one for one, _ in changes], [weight for _, weight in changes])
        where = f"part {number}: " if len(files.parts) > 1 else ""
        said.append(where + one(dice, files, data))
    return said
