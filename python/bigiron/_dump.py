"""A dump, with results in Python's types."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from typing import Any

from . import _bigiron
from ._bigiron import Pages, UnknownNameError

Path = str | PathLike[str]

CACHE = 64 << 20
"""Default size of a dump's cache of decompressed memory, in bytes."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of the kernel or of a module."""

    name: str
    address: int
    kind: str
    """Kind as in nm(1); upper case for global symbols."""
    offset: int = 0
    """Offset of the requested address from the symbol."""
    module: str | None = None
    """Name of its module; None for the kernel itself."""

    def __str__(self) -> str:
        text = f"{self.name}+{self.offset:#x}" if self.offset else self.name
        return f"{text} [{self.module}]" if self.module else text


@dataclass(frozen=True, slots=True)
class Value:
    """A typed value in memory."""

    address: int
    type: str | None
    """Type in C notation; None if unknown."""
    tree: dict[str, Any] | None
    """The value as in `bigiron read --json`: its kind, with members or elements."""

    @property
    def value(self) -> Any:
        """The value in Python's types: numbers, strings, lists, and dictionaries for structs.

        A pointer is its address. Unreadable values are None. Members of anonymous structs are in the dictionary of the
        enclosing struct.
        """
        return _plain(self.tree) if self.tree else None


def _plain(tree: dict[str, Any]) -> Any:
    match tree["kind"]:
        case "number" | "enumeration":
            return tree["value"]
        case "pointer":
            return int(tree["value"], 16)
        case "text":
            return tree["text"]
        case "bytes":
            return bytes.fromhex(tree["bytes"])
        case "array":
            return [value for run in tree["elements"] for value in [_plain(run)] * run["times"]]
        case "struct":
            members: dict[str, Any] = {}
            for member in tree["members"]:
                inner = _plain(member)
                if "name" in member:
                    members[member["name"]] = inner
                elif isinstance(inner, dict):
                    members |= inner
            return members
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Task:
    """A process, a thread of a process, or a kernel thread."""

    pid: int
    """Process id; 0 for the idle task of each CPU."""
    tgid: int
    name: str
    state: str
    """State letter as in ps."""
    address: int
    """Address of the task_struct."""
    on_cpu: bool
    """True if the task was running on its CPU."""
    kernel_thread: bool
    idle: bool
    cpu: int | None = None
    parent: int | None = None
    rss_pages: int | None = None
    """Number of resident pages."""


@dataclass(frozen=True, slots=True)
class PageRun:
    """Consecutive page frames of the same class."""

    frame: int
    """First page frame."""
    count: int
    page_class: str
    """Class as in `bigiron report`: user, cache, slab, free, ..."""
    in_dump: bool
    """True if the dump contains the pages."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the kernel log. Fields that the kernel does not record are None."""

    time: float | None
    """Seconds since boot."""
    level: int | None
    """0 (emergency) to 7 (debug)."""
    facility: int | None
    caller: str | None
    """Writer of the record: T with a PID, or C with a CPU number."""
    text: str

    def __str__(self) -> str:
        return self.text if self.time is None else f"[{self.time:12.6f}] {self.text}"


class Dump:
    """An opened dump. Any number of threads may use it concurrently."""

    def __init__(
        self,
        path: Path | Sequence[Path],
        *,
        vmcoreinfo: bytes | None = None,
        memory_map: str | None = None,
        identity: Path | None = None,
        cache: int = CACHE,
    ) -> None:
        paths = [path] if isinstance(path, (str, PathLike)) else list(path)
        self.paths = [fspath(path) for path in paths]
        self._dump = _bigiron.Dump(self.paths, vmcoreinfo, memory_map, identity, cache)
        self.page_size = 1 << self._dump.page_shift()
        self.end_frame = self._dump.end_frame()
        """The page frame after the last one of memory."""
        self.machine = self._dump.machine()
        """The architecture, as in `uname -m`."""
        self.byte_order = self._dump.byte_order()

    def __repr__(self) -> str:
        return f"<bigiron.Dump {', '.join(self.paths)}: Linux {self.release}>"

    @cached_property
    def info(self) -> dict[str, Any]:
        """The output of `bigiron info --json`: the kernel, its memory, and time and cause of the crash."""
        return self._dump.info()

    @cached_property
    def vmcoreinfo(self) -> dict[str, str]:
        """The lines of VMCOREINFO."""
        return self._dump.vmcoreinfo()

    @property
    def release(self) -> str:
        """The kernel release, as in `uname -r`."""
        return self.vmcoreinfo.get("OSRELEASE", "")

    def read(self, address: int, size: int, *, physical: bool = False) -> bytes:
        """Returns the bytes at a kernel address, or at a physical one."""
        return self._dump.read(address, size, physical)

    def read_int(self, address: int, size: int = 8, *, signed: bool = False, physical: bool = False) -> int:
        """Returns the number of `size` bytes at an address, in the byte order of the machine."""
        return int.from_bytes(self.read(address, size, physical=physical), self.byte_order, signed=signed)

    def read_string(self, address: int, most: int = 4096) -> str:
        """Returns the string at a kernel address, up to its NUL or `most` bytes."""
        text = b""
        while len(text) < most:
            at = address + len(text)
            # Only up to the end of a page, because the next one may be absent.
            piece = self.read(at, min(self.page_size - at % self.page_size, most - len(text)))
            end = piece.find(0)
            if end >= 0:
                return (text + piece[:end]).decode(errors="replace")
            text += piece
        return text.decode(errors="replace")

    def pages(self, frame: int, most: int = 1) -> Pages:
        """Returns a page frame and up to `most` - 1 following ones that are available without another read.

        A `memoryview` of the result does not copy them.
        """
        return self._dump.pages(frame, most)

    def translate(self, address: int) -> int | None:
        """Returns the physical address of a kernel address; None if it is not mapped."""
        return self._dump.translate(address)

    def symbol(self, name: str) -> Symbol:
        """Returns the symbol with a name, preferably a global one."""
        found = [Symbol(*symbol) for symbol in self._dump.symbols_named(name)]
        if not found:
            raise UnknownNameError(f"the kernel has no symbol {name}")
        return next((symbol for symbol in found if symbol.kind.isupper()), found[0])

    def symbol_at(self, address: int) -> Symbol | None:
        """Returns the nearest symbol at or below an address."""
        found = self._dump.symbol_at(address)
        return Symbol(*found) if found else None

    def symbols(self) -> Iterator[Symbol]:
        """Returns all symbols of the kernel."""
        return (Symbol(*symbol) for symbol in self._dump.symbols())

    def type(self, name: str) -> dict[str, Any]:
        """Returns a struct, union, enumeration or typedef, as in `bigiron type --json`."""
        found = self._dump.definition(name)
        if found is None:
            raise UnknownNameError(f"the kernel has no type {name}")
        return found

    def read_value(self, place: str, type: str | None = None, *, cpu: int | None = None, depth: int = 4) -> Value:
        """Returns the value at a location as in `bigiron read`, such as `init_task.comm` or `runqueues@1.nr_running`.

        `type` is the type of the symbol or address at the start of the location, if the kernel does not provide it.
        Nested structs are read to `depth`.
        """
        return Value(*self._dump.value(place, type, cpu, depth))

    def tasks(self) -> list[Task]:
        """Returns all tasks. Missing information is reported by a warning."""
        found = self._dump.tasks()
        _warn(found.get("gaps", []))
        names = Task.__dataclass_fields__
        return [
            Task(**{name: value for name, value in task.items() if name in names} | {"address": int(task["address"], 16)})
            for task in found["tasks"]
        ]

    def modules(self) -> list[dict[str, Any]]:
        """Returns the modules, most recent first, as in `bigiron info --modules --json`."""
        found = self._dump.modules()
        _warn([found["missing"]] if found.get("missing") else [])
        modules: list[dict[str, Any]] = found["list"]
        return modules

    def slab_caches(self) -> list[dict[str, Any]]:
        """Returns the slab caches, largest first: name, sizes, slabs, objects, bytes."""
        found = self._dump.slab_caches()
        _warn(found.get("warnings", []))
        caches: list[dict[str, Any]] = found["caches"]
        return caches

    def memory_use(self) -> dict[str, Any]:
        """Returns the kernel's memory statistics, by use."""
        return self._dump.memory_use()

    def diagnose(self, *, timeout: float | None = 60) -> dict[str, Any]:
        """Returns why the machine stopped, as in `bigiron diagnose --json`.

        The search ends after `timeout` seconds with what it has found until then; `complete` is false then.
        """
        return self._dump.diagnose(timeout)

    def waits(self) -> dict[str, Any]:
        """Returns who waits for whom, as in `bigiron info --waits --json`."""
        return self._dump.waits()

    def system(self) -> dict[str, Any]:
        """Returns the machine, command line, taint, uptime and load, as in `bigiron info --sys --json`."""
        return self._dump.system()

    def requests(self) -> list[dict[str, Any]]:
        """Returns the disks and the requests that they have not answered, as in `bigiron info --requests --json`."""
        return self._dump.requests()

    def run_queues(self) -> list[dict[str, Any]]:
        """Returns the current and waiting tasks of each CPU, as in `bigiron info --run-queues --json`."""
        return self._dump.run_queues()

    def work_queues(self) -> dict[str, Any]:
        """Returns work queues, their pools of workers and items, as in `bigiron info --workqueues --json`."""
        return self._dump.work_queues()

    def mounts(self) -> dict[str, Any]:
        """Returns the mounts of each namespace, as in `bigiron info --mounts --json`."""
        return self._dump.mounts()

    def network(self) -> dict[str, Any]:
        """Returns the network devices of each namespace, as in `bigiron info --network --json`."""
        return self._dump.network()

    def interrupts(self) -> dict[str, Any]:
        """Returns interrupts and softirqs, and how often each CPU took them, as in `bigiron info --irq --json`."""
        return self._dump.interrupts()

    def process(self, pid: int) -> dict[str, Any]:
        """Returns what a process has mapped, and the user registers and stacks of its threads, as in `bigiron info --user
        PID --json`."""
        return self._dump.process(pid)

    def page_runs(self) -> Iterator[PageRun]:
        """Returns the classes of all page frames of RAM, in order."""
        for chunk in self._dump.chunks():
            for run in self._dump.classes(chunk):
                yield PageRun(*run)

    def dmesg(self, *, since_clear: bool = False) -> list[Record]:
        """Returns the kernel log, oldest record first. Unreadable parts are reported by a warning."""
        records, wrong = self._dump.log(since_clear)
        _warn(wrong)
        return [Record(*record) for record in records]


def _warn(texts: list[str]) -> None:
    for text in texts:
        warnings.warn(text, stacklevel=3)


def open(
    path: Path | Sequence[Path],
    *,
    vmcoreinfo: bytes | None = None,
    memory_map: str | None = None,
    identity: Path | None = None,
    cache: int = CACHE,
) -> Dump:
    """Opens a dump in any format; a list of paths contains all parts of a split or striped one.

    `vmcoreinfo` is the VMCOREINFO text for a dump without one, `identity` the file with the key of an encrypted dump, and
    `cache` the size of the cache of decompressed memory in bytes. With `memory_map` the path is that of a raw image of
    memory: it is the text of the image's memory map in the form of /proc/iomem, or "flat".
    """
    return Dump(path, vmcoreinfo=vmcoreinfo, memory_map=memory_map, identity=identity, cache=cache)
