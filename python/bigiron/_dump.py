"""A dump, as Python's own types."""

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
"""Bytes of decompressed memory that a dump keeps, unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that the kernel has for an address."""

    name: str
    address: int
    kind: str
    """As nm(1) says it; upper case if it is global."""
    offset: int = 0
    """How far behind the symbol the address lies that was asked for."""
    module: str | None = None
    """The module that it is of; None for the kernel's own."""

    def __str__(self) -> str:
        text = f"{self.name}+{self.offset:#x}" if self.offset else self.name
        return f"{text} [{self.module}]" if self.module else text


@dataclass(frozen=True, slots=True)
class Value:
    """What is at a place in memory, by its type."""

    address: int
    type: str | None
    """As C writes it; None where nobody knows it."""
    tree: dict[str, Any] | None
    """What `bigiron read --json` tells: its kind, and members or elements inside."""

    @property
    def value(self) -> Any:
        """It in Python's own types: numbers, texts, lists, and dictionaries for structs.

        A pointer is its address. What could not be read is None. Members of structs without a name are among those of
        the struct around them.
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
    """A process, a thread of one, or a thread of the kernel."""

    pid: int
    """0 of the idle task of each CPU."""
    tgid: int
    name: str
    state: str
    """The letter that ps shows."""
    address: int
    """Of its task_struct."""
    on_cpu: bool
    """Whether it was on its CPU."""
    kernel_thread: bool
    idle: bool
    cpu: int | None = None
    parent: int | None = None
    rss_pages: int | None = None
    """Pages that it had in memory."""


@dataclass(frozen=True, slots=True)
class PageRun:
    """Page frames that follow each other and are alike."""

    frame: int
    """The first."""
    count: int
    page_class: str
    """What they are used for, as `bigiron report` names it: user, cache, slab, free, ..."""
    in_dump: bool
    """Whether the dump has their bytes."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the kernel log. What a kernel does not keep is None."""

    time: float | None
    """Seconds since boot."""
    level: int | None
    """0 (emergency) to 7 (debug)."""
    facility: int | None
    caller: str | None
    """Who wrote it: T and a PID, or C and a CPU."""
    text: str

    def __str__(self) -> str:
        return self.text if self.time is None else f"[{self.time:12.6f}] {self.text}"


class Dump:
    """An opened dump. Any number of threads may use it at once."""

    def __init__(
        self,
        path: Path | Sequence[Path],
        *,
        vmcoreinfo: bytes | None = None,
        identity: Path | None = None,
        cache: int = CACHE,
    ) -> None:
        paths = [path] if isinstance(path, (str, PathLike)) else list(path)
        self.paths = [fspath(path) for path in paths]
        self._dump = _bigiron.Dump(self.paths, vmcoreinfo, identity, cache)
        self.page_size = 1 << self._dump.page_shift()
        self.end_frame = self._dump.end_frame()
        """The page frame behind the last one of memory."""
        self.machine = self._dump.machine()
        """The architecture, as `uname -m` says it."""
        self.byte_order = self._dump.byte_order()

    def __repr__(self) -> str:
        return f"<bigiron.Dump {', '.join(self.paths)}: Linux {self.release}>"

    @cached_property
    def info(self) -> dict[str, Any]:
        """What `bigiron info --json` tells: the kernel, its memory, when and why it stopped."""
        return self._dump.info()

    @cached_property
    def vmcoreinfo(self) -> dict[str, str]:
        """What the kernel says of itself."""
        return self._dump.vmcoreinfo()

    @property
    def release(self) -> str:
        """As `uname -r`."""
        return self.vmcoreinfo.get("OSRELEASE", "")

    def read(self, address: int, size: int, *, physical: bool = False) -> bytes:
        """The bytes at a kernel address, or at a physical one."""
        return self._dump.read(address, size, physical)

    def read_int(self, address: int, size: int = 8, *, signed: bool = False, physical: bool = False) -> int:
        """The number of `size` bytes at an address, in the byte order of the machine."""
        return int.from_bytes(self.read(address, size, physical=physical), self.byte_order, signed=signed)

    def read_string(self, address: int, most: int = 4096) -> str:
        """The text at a kernel address, up to its NUL or so many bytes."""
        text = b""
        while len(text) < most:
            at = address + len(text)
            # Up to the end of a page: the next one need not be there.
            piece = self.read(at, min(self.page_size - at % self.page_size, most - len(text)))
            end = piece.find(0)
            if end >= 0:
                return (text + piece[:end]).decode(errors="replace")
            text += piece
        return text.decode(errors="replace")

    def pages(self, frame: int, most: int = 1) -> Pages:
        """A page frame, and those behind it that are at hand: `most` at most. `memoryview` of it copies nothing."""
        return self._dump.pages(frame, most)

    def translate(self, address: int) -> int | None:
        """The physical address behind a kernel address; None if nothing is mapped there."""
        return self._dump.translate(address)

    def symbol(self, name: str) -> Symbol:
        """The symbol of that name; a global one before others."""
        found = [Symbol(*symbol) for symbol in self._dump.symbols_named(name)]
        if not found:
            raise UnknownNameError(f"the kernel has no symbol {name}")
        return next((symbol for symbol in found if symbol.kind.isupper()), found[0])

    def symbol_at(self, address: int) -> Symbol | None:
        """The symbol that an address lies in or behind."""
        found = self._dump.symbol_at(address)
        return Symbol(*found) if found else None

    def symbols(self) -> Iterator[Symbol]:
        """All symbols of the kernel."""
        return (Symbol(*symbol) for symbol in self._dump.symbols())

    def type(self, name: str) -> dict[str, Any]:
        """A struct, union, enumeration or typedef: what `bigiron type --json` tells."""
        found = self._dump.definition(name)
        if found is None:
            raise UnknownNameError(f"the kernel has no type {name}")
        return found

    def read_value(self, place: str, type: str | None = None, *, cpu: int | None = None, depth: int = 4) -> Value:
        """What is at a place, as `bigiron read` takes it: `init_task.comm`, `runqueues@1.nr_running`.

        `type` is what stands at the symbol or address that the place begins with, where the kernel does not tell;
        structs in structs are read to `depth`.
        """
        return Value(*self._dump.value(place, type, cpu, depth))

    def tasks(self) -> list[Task]:
        """All tasks. What could not be told is told by a warning."""
        found = self._dump.tasks()
        _warn(found.get("gaps", []))
        names = Task.__dataclass_fields__
        return [
            Task(**{name: value for name, value in task.items() if name in names} | {"address": int(task["address"], 16)})
            for task in found["tasks"]
        ]

    def modules(self) -> list[dict[str, Any]]:
        """The modules, the youngest first, as `bigiron info --modules --json` tells."""
        found = self._dump.modules()
        _warn([found["missing"]] if found.get("missing") else [])
        modules: list[dict[str, Any]] = found["list"]
        return modules

    def slab_caches(self) -> list[dict[str, Any]]:
        """The slab caches, the largest first: name, sizes, slabs, objects, bytes."""
        found = self._dump.slab_caches()
        _warn(found.get("warnings", []))
        caches: list[dict[str, Any]] = found["caches"]
        return caches

    def memory_use(self) -> dict[str, Any]:
        """Memory by what uses it, as the kernel itself counts."""
        return self._dump.memory_use()

    def page_runs(self) -> Iterator[PageRun]:
        """What all page frames of RAM are used for, in order."""
        for chunk in self._dump.chunks():
            for run in self._dump.classes(chunk):
                yield PageRun(*run)

    def dmesg(self, *, since_clear: bool = False) -> list[Record]:
        """The kernel log, oldest first. What could not be read is told by a warning."""
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
    identity: Path | None = None,
    cache: int = CACHE,
) -> Dump:
    """Opens a dump in any format; a list of paths for all parts of a split or striped one.

    `vmcoreinfo` is the text for a dump without one, `identity` the file with the key to an encrypted one, `cache` the
    bytes of decompressed memory to keep.
    """
    return Dump(path, vmcoreinfo=vmcoreinfo, identity=identity, cache=cache)
