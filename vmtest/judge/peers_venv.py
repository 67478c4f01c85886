"""Python environments with what judges import, made on first use: by default drgn and pyzstd.

The versions are pinned, so that the results of judges do not change with new versions.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = ("drgn==0.3.0", "pyzstd==0.20.0")
# An S3 server, and the client of its makers; the same as in scripts/check_objects.
OBJECT_STORAGE = ("moto[server]==5.2.5",)


def cache_dir() -> Path:
    """Returns the project's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bigiron"


def make_environment(name: str = "venv", requirements: tuple[str, ...] = REQUIREMENTS) -> Path:
    """Makes the environment if necessary; returns its Python."""
    home = cache_dir() / name
    stamp = home / "requirement"
    python = home / "bin" / "python3"
    wanted = "\n".join(requirements)
    cache_dir().mkdir(parents=True, exist_ok=True)
    with open(cache_dir() / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            base = getattr(sys, "_base_executable", sys.executable)
            subprocess.run([base, "-m", "venv", "--clear", home], check=True)
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", *requirements], check=True
            )
            stamp.write_text(wanted)
    return python


def run_inside(name: str = "venv", requirements: tuple[str, ...] = REQUIREMENTS) -> None:
    """Restarts the running script in the environment, unless it is running there already."""
    python = make_environment(name, requirements)
    if Path(sys.prefix).resolve() != python.parent.parent.resolve():
        os.execv(python, [str(python), *sys.argv])
