"""The Python environment with drgn and pyzstd, made on first use.

The versions are pinned, so that the results of judges do not change with new versions.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = ("drgn==0.3.0", "pyzstd==0.20.0")


def cache_dir() -> Path:
    """Returns the project's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bigiron"


def make_environment() -> Path:
    """Makes the environment if necessary; returns its Python."""
    home = cache_dir() / "venv"
    stamp = home / "requirement"
    python = home / "bin" / "python3"
    wanted = "\n".join(REQUIREMENTS)
    cache_dir().mkdir(parents=True, exist_ok=True)
    with open(cache_dir() / "venv.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            base = getattr(sys, "_base_executable", sys.executable)
            subprocess.run([base, "-m", "venv", "--clear", home], check=True)
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True
            )
            stamp.write_text(wanted)
    return python


def run_inside() -> None:
    """Restarts the running script in the environment, unless it is running there already."""
    python = make_environment()
    if Path(sys.prefix).resolve() != python.parent.parent.resolve():
        os.execv(python, [str(python), *sys.argv])
