"""Large memory, made, locked and given back by helper threads.

`create` makes a segment of shared or private memory with all its pages at once, `attach` maps one that exists; both are
context managers and have the buffer protocol, so that `memoryview` and `numpy.frombuffer` use the memory itself.
`populate`, `lock` and `unlock` are for whatever has a buffer, such as `mmap.mmap`. Threads run meanwhile. `explain` tells
how fast all that can be here, and why.

Errors are `OSError` with the errno and what to do about it; what makes no sense is `ValueError`.
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
"""Transparent huge pages as far as the system has some, none, or pages of a pool of the system (hugetlb)."""

Progress = Callable[[int], object]
"""Called with the bytes that are done, in the thread that called; what it raises ends the operation."""


class Pool(TypedDict):
    """A pool of huge pages."""

    pages: int
    free: int


class Facts(TypedDict):
    """The machine, and this process's rights and limits."""

    kernel: str
    page_size: int
    processors: int
    """That this process may use at the same time."""
    processors_online: int
    nodes: int
    available_bytes: int
    control_group_bytes: NotRequired[int]
    """What control groups still allow, where they have a limit."""
    madv_populate: bool
    madv_dontneed_locked: bool
    madv_collapse: bool
    huge_pages: str
    """transparent_hugepage/enabled; empty where the kernel has none."""
    huge_shared: str
    """The same for shared memory."""
    huge_shared_by_size: dict[str, str]
    """Sizes in KiB with a setting of their own, but `never`."""
    pools: dict[str, Pool]
    """By the size of their pages in KiB."""
    locked_limit: NotRequired[int]
    """RLIMIT_MEMLOCK, where there is one."""
    may_lock_all: bool
    """Whether this process may lock more."""
    shmmax: int
    shmall_bytes: int
    seccomp: bool
    reaper: bool
    preload_library: NotRequired[str]
    """What `bigiron mem run` loads into programs, where it is found."""


class Step(TypedDict):
    """A step of memory's life, from making it to giving it back."""

    step: str
    verdict: Literal["faster", "partly", "plain"]
    """With helpers or huge pages: faster, in part or not for everyone, or as the plain call."""
    why: str
    change: NotRequired[list[str]]
    """What would make it better, where anything can."""


class Explanation(TypedDict):
    """What `explain` tells."""

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
    """Makes a segment of `size` bytes, grown to whole pages, and maps it; what fails leaves nothing.

    `name` is that of POSIX shared memory or a memfd, or the path of a new file; `key` that of a System V segment, which none
    may have yet. `stripes` are files side by side, which several processors give back at once. `numa` is `local`,
    `spread`, `interleave=NODES` or `bind=NODES`. With `lock` it is locked at once: a System V segment for as long as it exists.
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
    """Maps memory that exists.

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
    """Makes all pages of memory or of a file that exists, and gives its bytes. `what` is as for `attach`."""
    return _bigiron.prewarm(str(what), _page_size(page_size), helpers, progress)


def remove(what: str | int) -> None:
    """Removes memory from the system. `what` is as for `attach`; of files only those that are memory."""
    _bigiron.remove(str(what))


def explain() -> Explanation:
    """Tells what can be faster with this kernel, its settings, and this process's rights and limits, why, and what to change.

    It is what `bigiron mem explain --json` tells; `bigiron` itself, whose library accelerates unchanged programs, is looked for
    on PATH.
    """
    program = shutil.which("bigiron")
    return cast(Explanation, _bigiron.explain(realpath(program) if program else None))


def populate(buffer: Buffer, *, write: bool | None = None, helpers: int | None = None) -> None:
    """Makes the pages that a buffer lies in, so that no later touch waits.

    As by writing or by reading, without changing anything; by default as each mapping needs it.
    """
    _bigiron.populate(buffer, write, helpers)


def lock(buffer: Buffer, *, helpers: int | None = None) -> None:
    """Locks the pages that a buffer lies in, as mlock."""
    _bigiron.lock(buffer, helpers)


def unlock(buffer: Buffer) -> None:
    """Unlocks the pages that a buffer lies in, as munlock."""
    _bigiron.unlock(buffer)


def _page_size(size: PageSize) -> int | None:
    if size == "auto":
        return None
    return 0 if size == "small" else size
