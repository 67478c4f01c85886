"""The programs for guests: the static bigiron for capture kernels, and bigiron for other architectures."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .architectures import Architecture
from .errors import LabError, Unavailable
from .tools import is_static

ROOT = Path(__file__).resolve().parent.parent.parent
# Exit status of the scripts if this machine lacks a requirement.
SKIPPED = 77


def static(given: Path | None, *options: str) -> Path:
    """Returns the program at `given`, which must be static, or builds one by scripts/static with these options."""
    # The capture build (docs/static.md), which is static: the capture kernel has no libraries.
    program = (given or _built("static", options, "no static bigiron")).resolve()
    if not is_static(program):
        raise LabError(f"{program} is not static")
    return program


def cross(architecture: Architecture) -> Path:
    """Builds the program with all features for another architecture, by scripts/cross."""
    return _built("cross", [architecture.target], f"no bigiron for {architecture.debian}")


def _built(script: str, options: Sequence[str], without: str) -> Path:
    """Runs a script that builds a program. The last line of its output is "PATH: SIZE bytes"."""
    # The profile of the tests; the capture build has its own.
    environment = {"BIGIRON_PROFILE": "unit"} | os.environ
    command = [ROOT / "scripts" / script, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    output = done.stdout.strip().splitlines() or [""]
    if done.returncode == SKIPPED:
        raise Unavailable(f"{without}: {output[-1].removeprefix('SKIP ')}")
    if done.returncode != 0:
        raise LabError(f"scripts/{script} failed: {without}")
    return Path(output[-1].rsplit(":", 1)[0])
