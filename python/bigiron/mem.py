"""Creation, locking and release of large memory by helper threads.

`create` creates a segment of shared or private memory with all its pages, and `attach` maps an existing one. Segments are
context managers and have the buffer protocol, so `memoryview` and `numpy.frombuffer` access the memory itself.
`populate`, `lock` and `unlock` work on any object with a buffer, such as `mmap.mmap`. Other Python threads run during the
calls. `explain` reports what can be faster on this system, and why.

Errors are `OSError` with the errno and the remedy; invalid arguments are `ValueError`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from os import PathLike
from os.path import realpath
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict, cast

from . import _bigiron
from ._bigiron import Segment

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "Explanation",
    "Facts",
    "Kind",
    "PageSize",
    "Pool",
    "Progress",
    "Segment",
    "Step",
    "attach",
    "create",
    "explain",
    "lock",
    "populate",
    "prewarm",
    "remove",
    "unlock",
]

Kind = Literal["system-v", "posix", "memfd", "file", "anonymous"]

PageSize = int | Literal["auto", "small"]
"""`auto`: transparent huge pages as far as available; `small`: none; or the page size of a hugetlb pool in bytes."""

Progress = Callable[[int], object]
"""Called with the number of bytes done, in the calling thread. An exception ends the operation."""


class Pool(TypedDict):
    """A pool of huge pages."""

    pages: int
    free: int


class Facts(TypedDict):
    """The machine, and the privileges and limits of this process."""

    kernel: str
    page_size: int
    processors: int
    """Number of processors that this process may use."""
    processors_online: int
    nodes: int
    available_bytes: int
    control_group_bytes: NotRequired[int]
    """Memory still available within the control groups' limits, if there are any."""
    madv_populate: bool
    madv_dontneed_locked: bool
    madv_collapse: bool
    huge_page_size: NotRequired[int]
    """Size of transparent huge pages in bytes, if the kernel has them."""
    huge_pages: str
    """transparent_hugepage/enabled; empty if the kernel does not have it."""
    huge_shared: str
    """transparent_hugepage/shmem_enabled; empty if the kernel does not have it."""
    huge_shared_by_size: dict[str, str]
    """transparent_hugepage/hugepages-*/shmem_enabled by size in KiB (since Linux 6.11)."""
    huge_pages_by_size: dict[str, str]
    """transparent_hugepage/hugepages-*/enabled by size in KiB (since Linux 6.8)."""
    pools: dict[str, Pool]
    """Pools by page size in KiB."""
    locked_limit: NotRequired[int]
    """RLIMIT_MEMLOCK in bytes, if limited."""
    may_lock_all: bool
    """True if this process may exceed that limit."""
    shmmax: int
    shmall_bytes: int
    seccomp: bool
    reaper: bool
    preload_library: NotRequired[str]
    """Path of the library that `bigiron mem run` preloads, if found."""


class Step(TypedDict):
    """A step in the life cycle of memory, from creation to release."""

    step: str
    verdict: Literal["faster", "partly", "plain"]
    """Effect of helpers or huge pages: faster, faster in part or not for all memory, or the plain call."""
    why: str
    change: NotRequired[list[str]]
    """Changes that would improve it, if any."""


class Explanation(TypedDict):
    """Result of `explain`."""

    facts: Facts
    steps: list[Step]


def create(
    kind: Kind,
    size: int,
    *,
    name: str | PathLike[str] | None = None,
    key: int | None = None,
    mode: int = 0o600,
    page_size: PageSize = "auto",
    stripes: int = 1,
    numa: str = "local",
    populate: bool = True,
    lock: bool = False,
    helpers: int | None = None,
    progress: Progress | None = None,
) -> Segment:
    """Creates a segment of `size` bytes, rounded up to whole pages, and maps it. A failure leaves nothing behind.

    `name` is the name of POSIX shared memory or a memfd, or the path of a new file; `key` is the key of a System V segment,
    which must be unused. `stripes` is the number of files that form the segment, which several processors can free
    concurrently. `numa` is `local`, `spread`, `interleave=NODES` or `bind=NODES`. `lock` locks the segment on creation, a
    System V segment as long as it exists.
    """
    arguments = (kind, size, name, key, mode, _page_size(page_size), stripes, numa, populate, lock, helpers, progress)
    return _bigiron.create(*arguments)


def attach(
    what: str | int,
    *,
    read_only: bool = False,
    page_size: PageSize = "auto",
    helpers: int | None = None,
) -> Segment:
    """Maps existing memory.

    `what` is the id of a System V segment, its key as `0x...`, the name of POSIX shared memory, or the path of a file.
    """
    return _bigiron.attach(str(what), read_only, _page_size(page_size), helpers)


def prewarm(
    what: str | int,
    *,
    page_size: PageSize = "auto",
    helpers: int | None = None,
    progress: Progress | None = None,
) -> int:
    """Populates existing memory or an existing file, and returns its size in bytes. `what` is as for `attach`."""
    return _bigiron.prewarm(str(what), _page_size(page_size), helpers, progress)


def remove(what: str | int) -> None:
    """Removes memory from the system. `what` is as for `attach`; files are only removed from tmpfs and hugetlbfs."""
    _bigiron.remove(str(what))


def explain() -> Explanation:
    """Reports what can be faster with this kernel, its settings, and the privileges and limits of this process.

    The result is that of `bigiron mem explain --json`, with reasons and possible changes. `bigiron` itself, whose library
    accelerates unchanged programs, is searched on PATH.
    """
    program = shutil.which("bigiron")
    return cast(Explanation, _bigiron.explain(realpath(program) if program else None))


def populate(buffer: Buffer, *, write: bool | None = None, helpers: int | None = None) -> None:
    """Populates the pages that contain a buffer, so that later accesses cause no page faults.

    Pages are populated as by writes or by reads, without changing contents; by default as each mapping requires.
    """
    _bigiron.populate(buffer, write, helpers)


def lock(buffer: Buffer, *, helpers: int | None = None) -> None:
    """Locks the pages that contain a buffer, as mlock."""
    _bigiron.lock(buffer, helpers)


def unlock(buffer: Buffer) -> None:
    """Unlocks the pages that contain a buffer, as munlock."""
    _bigiron.unlock(buffer)


def _page_size(size: PageSize) -> int | None:
    if size == "auto":
        return None
    return 0 if size == "small" else size
