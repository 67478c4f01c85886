"""Enables huge pages during a run. The settings of the machine are restored afterwards."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from lab.errors import Unavailable

# A pool, required by the kernel's tests of hugetlbfs, and transparent huge pages for shared memory on request.
_SETTINGS = (
    (Path("/proc/sys/vm/nr_hugepages"), "256"),
    (Path("/sys/kernel/mm/transparent_hugepage/enabled"), "madvise"),
    (Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled"), "advise"),
)


def _read(path: Path) -> str:
    """Returns the current value of a setting; among several choices, the one in brackets."""
    text = path.read_text().strip()
    return text.split("[", 1)[1].split("]", 1)[0] if "[" in text else text


@contextlib.contextmanager
def pages() -> Iterator[None]:
    """Provides huge pages while the block runs."""
    if os.geteuid() != 0:
        raise Unavailable("setting huge pages requires root")
    before = [(path, _read(path)) for path, _ in _SETTINGS]
    try:
        for path, value in _SETTINGS:
            path.write_text(value)
        yield
    finally:
        for path, value in before:
            path.write_text(value)
