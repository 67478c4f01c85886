"""The static bigiron for capture kernels."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from .errors import LabError, Unavailable
from .tools import is_static

ROOT = Path(__file__).resolve().parent.parent.parent
# Exit status of scripts/static if this machine lacks a requirement.
SKIPPED = 77


def static(given: Path | None, *options: str) -> Path:
    """Returns the program at `given`, which must be static, or builds one by scripts/static with these options."""
    program = (given or _build(options)).resolve()
    if not is_static(program):
        raise LabError(f"{program} is not static")
    return program


def _build(options: Sequence[str]) -> Path:
    """Makes the capture build (docs/static.md), which is static: the capture kernel has no libraries."""
    done = subprocess.run([ROOT / "scripts" / "static", *options], stdout=subprocess.PIPE, text=True)
    output = done.stdout.strip().splitlines() or [""]
    if done.returncode == SKIPPED:
        raise Unavailable(f"no static bigiron: {output[-1].removeprefix('SKIP ')}")
    if done.returncode != 0:
        raise LabError("scripts/static could not build a static bigiron")
    # The last line is "PATH: SIZE bytes, static".
    return Path(output[-1].rsplit(":", 1)[0])
