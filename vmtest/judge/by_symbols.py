"""The command line of judges that compare bigiron's output about a dump with drgn's, which uses debug symbols."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import peers_venv
from tools import Bigiron
from verdict import CannotJudge, Verdict

Judge = Callable[[Bigiron, str, Path, Path], Verdict]
"""Called with the program, vmlinux, the dump, and a file of the same memory that drgn opens."""


def main(description: str | None, judge: Judge) -> int:
    """Judges the dump named on the command line; returns the exit code. `description` is the judge's own."""
    peers_venv.run_inside()
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("bigiron", type=Path)
    parser.add_argument("vmlinux", help="with debug symbols, of the dump's kernel")
    parser.add_argument("dump", type=Path)
    arguments = parser.parse_args()
    try:
        return judge(Bigiron(arguments.bigiron), arguments.vmlinux, arguments.dump, arguments.dump).finish()
    except CannotJudge as error:
        return error.finish()
