"""Builds the program `storm`, and runs it with and without the library."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import tools
from lab.errors import LabError

HERE = Path(__file__).resolve().parent
LIBRARY = "libbigiron_preload.so"
# The thresholds are small enough that parts of the arena, which has 4 MiB, are shared among helpers.
SMALL = "threshold=64K,chunk=64K,helpers=16"
# A policy without visible effects, even on the number of resident pages of a segment.
EXACT = f"{SMALL},attach=plain,shm-lock=plain,huge=never"
SECONDS = 1200


@dataclass(frozen=True)
class Library:
    """The preload library; `path` is None for a plain run."""

    path: Path | None
    policy: str = ""
    # Libraries loaded before it.
    first: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        """Returns the program's environment."""
        clean = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"}
        loaded = [*self.first, *([str(self.path)] if self.path else [])]
        preload = {"LD_PRELOAD": ":".join(loaded)} if loaded else {}
        if self.path is None:
            return clean | preload
        # Set by `bigiron mem run` too: the program that takes over long operations.
        program = self.path.with_name("bigiron")
        reaper = {"BIGIRON_MEM_PROGRAM": str(program)} if program.exists() else {}
        return clean | preload | reaper | {"BIGIRON_MEM": self.policy}


PLAIN = Library(None)


@dataclass(frozen=True)
class Ran:
    """Result of a run."""

    status: int
    output: str

    @property
    def ended(self) -> str:
        """Returns the status in words."""
        return signal.Signals(-self.status).name if self.status < 0 else f"exit status {self.status}"


def build(into: Path, *flags: str) -> Path:
    """Compiles the program."""
    tools.need("gcc")
    program = into / "storm"
    sources = sorted(HERE.glob("*.c"))
    tools.run(["gcc", "-std=gnu17", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", *flags, *sources, "-o", program])
    return program


def run(program: Path, library: Library, *arguments: object, more: Sequence[tuple[str, str]] = ()) -> Ran:
    """Runs the program to its end. Raises an error after a timeout."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [program, *map(str, arguments)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=library.environment() | dict(more),
        )  # fmt: skip
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            waits = _where_it_waits(process.pid)
            process.kill()
            process.wait()
            raise LabError(f"storm {' '.join(map(str, arguments))} did not end in {SECONDS} s\n{waits}") from None
        output.seek(0)
        return Ran(status, output.read().decode(errors="replace"))


def _where_it_waits(pid: int) -> str:
    lines = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            lines.append(f"task {task.name}: {(task / 'syscall').read_text().strip()} {(task / 'wchan').read_text()}")
        except OSError:
            continue
    return "\n".join(lines)


def first_difference(plain: str, other: str) -> str:
    """Returns the first differing lines, and the lines before them."""
    left, right = plain.splitlines(), other.splitlines()
    at = next((n for n, pair in enumerate(zip(left, right)) if pair[0] != pair[1]), min(len(left), len(right)))
    before = [f"      {line}" for line in left[max(0, at - 12) : at]]
    return "\n".join([*before, *(f"    - {line}" for line in left[at : at + 3]), *(f"    + {line}" for line in right[at : at + 3])])


def find_library(given: Path | None) -> Path:
    """Returns the library at `given`, or builds it."""
    if given:
        path = given.resolve()
    else:
        tools.run(["cargo", "build", "--locked", "--quiet", "--profile", "unit", "-p", "bigiron-preload"], timeout=1800)
        target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target"))
        path = target.resolve() / "unit" / LIBRARY
    if not path.exists():
        raise LabError(f"{path} does not exist: build it with cargo build --profile unit -p bigiron-preload")
    return path
