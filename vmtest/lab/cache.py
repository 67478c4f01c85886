"""The cache directory. Everything is made under a temporary name and renamed, so a path that exists is complete."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


def root() -> Path:
    """Returns $BIGIRON_VMCORES, or bigiron/vmcores in the user's cache directory."""
    named = os.environ.get("BIGIRON_VMCORES")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bigiron" / "vmcores"


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Holds a lock while one process makes `name`; the others wait and then find it made."""
    directory = root() / ".locks"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / name, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def new_directory(final: Path) -> Iterator[Path]:
    """Yields an empty directory that becomes `final` if the block succeeds, and is removed if it fails."""
    final.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    try:
        yield made
        if final.exists():
            shutil.rmtree(final)
        made.chmod(0o755)
        made.rename(final)
    finally:
        shutil.rmtree(made, ignore_errors=True)
