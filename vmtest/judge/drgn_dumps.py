"""The command line of the judges that compare bigiron with drgn on dumps of one kernel."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import peers_venv
from verdict import Verdict


def main(description: str, judge: Callable[[Path, Path, Path], Verdict]) -> int:
    """Runs `judge` on the symbols, each dump, and the program; returns the worst exit code."""
    peers_venv.run_inside()
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("vmlinux", type=Path, help="with debug symbols, of the dumps' kernel")
    parser.add_argument("bigiron", type=Path)
    parser.add_argument("dumps", type=Path, nargs="+")
    arguments = parser.parse_args()
    verdicts = [judge(arguments.vmlinux, dump, arguments.bigiron) for dump in arguments.dumps]
    return max(verdict.finish() for verdict in verdicts)
