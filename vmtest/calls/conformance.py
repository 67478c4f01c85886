"""The programs of ../conformance, which print transcripts of behaviour that manual pages and standards guarantee."""

import os
from pathlib import Path

from .programs import Program

# Folders about locking and ownership: the results depend on rights.
_OF_RIGHTS = ("lock", "shm")

# A constant for the programs, whose tables of sizes have it.
_PAGE = f"-DPAGE={os.sysconf('SC_PAGESIZE')}UL"

_FOLDER = Path(__file__).resolve().parents[1] / "conformance"


def find(*, root: bool) -> list[Program]:
    """Returns all programs for an ordinary user and, if `root` is available, those that depend on rights for root
    too."""
    users = (False, True) if root else (False,)
    sources = sorted(_FOLDER.rglob("*.c"))
    return [
        Program(
            suite="conformance" + (" as root" if as_root else ""),
            name=str(source.relative_to(_FOLDER).with_suffix("")),
            source=source,
            flags=("-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", _PAGE, f"-I{_FOLDER}"),
            libraries=("-lpthread",),
            as_root=as_root,
        )
        for as_root in users
        for source in sources
        if not as_root or source.parent.name in _OF_RIGHTS
    ]
