"""The memory that a dump has, read from the ELF core that bigiron makes of it by an independent reader."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from elfcore import ElfCore

from . import commands, limited

PAGE = 4096
ZEROS = bytes(PAGE)


@dataclass(frozen=True)
class Memory:
    """Digests of pages by page frame number, without pages of zeros: an ELF core cannot distinguish these from lost
    ones."""

    pages: dict[int, bytes]
    # True if the program says that no page is lost and that the dump is whole.
    complete: bool


def of_core(core: Path) -> dict[int, bytes]:
    """Returns digests of the pages of a core that are not zeros: the pages themselves would count as memory of the
    programs that are started."""
    pages = {}
    elf = ElfCore(core)
    for segment in elf.segments:
        for at in range(0, segment.filesz, PAGE):
            page = elf.map[segment.offset + at : segment.offset + at + PAGE]
            if page != ZEROS:
                pages.setdefault((segment.paddr + at) // PAGE, hashlib.blake2b(page, digest_size=16).digest())
    return pages


def summary_says_whole(stdout: bytes) -> bool:
    """Returns true if the summary of a dump names no loss."""
    summary = json.loads(stdout)
    return summary["source_complete"] and summary["pages"]["lost"] == 0 and not summary["warnings"]


def of_run(ran: limited.Ran, directory: Path, output: str) -> Memory | None:
    """Returns the memory in the output of commands.dump_to_elf; None if it was refused."""
    path = directory / output
    if ran.status != 0 or not path.exists():
        return None
    return Memory(of_core(path), summary_says_whole(ran.stdout))


def wrong(wanted: dict[int, bytes], found: dict[int, bytes]) -> str:
    """Returns the pages that have other bytes than wanted."""
    frames = [frame for frame, page in found.items() if wanted.get(frame) != page]
    return f"{len(frames)} pages have wrong bytes, the first is page frame {min(frames):#x}" if frames else ""


def differences(wanted: dict[int, bytes], memory: Memory) -> str:
    """Returns the first silent difference: a wrong page, or one that is missing in a dump that says it is complete."""
    if found := wrong(wanted, memory.pages):
        return found
    missing = wanted.keys() - memory.pages.keys()
    if memory.complete and missing:
        return f"{len(missing)} pages are missing, the first is page frame {min(missing):#x}, and nothing says so"
    return ""


def lost(before: dict[int, bytes], after: dict[int, bytes]) -> str:
    """Returns the pages that were readable and are not any more."""
    gone = [frame for frame, page in before.items() if after.get(frame) != page]
    return f"{len(gone)} of {len(before)} readable pages are gone, the first is page frame {min(gone):#x}" if gone else ""
