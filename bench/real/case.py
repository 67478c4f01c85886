"""Functions common to all measured programs: starting, waiting, and the system's own figures."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

GIB = 1 << 30
# Seconds after which a step has failed; longer than any step takes on a busy machine.
PATIENCE = 180.0
# Seconds between two checks that a program is ready.
TICK = 0.002
# Tolerance for shared memory that other programs begin to use meanwhile.
NOISE = 64 << 20

# Linux 5.14, include/uapi/asm-generic/mman-common.h.
MADV_POPULATE_WRITE = 23

Phases = dict[str, float]


class CannotRun(Exception):
    """A program that cannot be measured on this machine, with the reason."""


class Failed(Exception):
    """A measured program that failed."""


class Case(ABC):
    """A program with its settings."""

    # Name in the table.
    name: str
    # True if the memory is shared memory, which depends on shmem_enabled.
    shared = False
    # Maximum memory in bytes.
    memory: int
    # The command of `run`, for the record.
    command: list[str]
    # The phase on which the verdict is based.
    total = "all"

    def prepare(self) -> None:
        """Prepares all runs, once; raises CannotRun."""

    @abstractmethod
    def run(self, prefix: list[str]) -> Phases:
        """Runs the program once, with `prefix` before its command; returns the seconds of its phases."""

    def version(self) -> str:
        """Returns the version of the program."""
        return ""


def need(program: str, package: str) -> str:
    """Returns the path of a program."""
    path = shutil.which(program)
    if path is None:
        raise CannotRun(f"{program} is not installed: apt-get install {package}")
    return path


def first_line(*command: str) -> str:
    """Returns the first line of a command's output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return (done.stdout.strip().splitlines() or [""])[0]


def wait_until(what: str, is_so: Callable[[], bool], alive: Callable[[], bool] = lambda: True) -> None:
    """Waits until a condition holds, while a program lives."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        if not alive():
            raise Failed(f"{what}: the program ended first")
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {PATIENCE:.0f} s")
        time.sleep(TICK)


def connect(path: Path) -> socket.socket | None:
    """Returns a connection to a Unix socket, or None if no server listens there."""
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(PATIENCE)
    try:
        one.connect(str(path))
    except OSError:
        one.close()
        return None
    return one


def ask(path: Path, words: bytes) -> bytes:
    """Returns a server's answer to one line; empty if no server listens."""
    one = connect(path)
    if one is None:
        return b""
    with one:
        try:
            one.sendall(words + b"\r\n")
            return one.recv(4096)
        except OSError:
            return b""


def read_until(stream: IO[bytes], words: bytes) -> bytes:
    """Returns a program's output up to the end of some words; raises Failed if it ends before."""
    got = b""
    end = time.monotonic() + PATIENCE
    while words not in got:
        if not select.select([stream], [], [], max(0.0, end - time.monotonic()))[0]:
            raise Failed(f"no `{words.decode()}` within {PATIENCE:.0f} s")
        part = os.read(stream.fileno(), 4096)
        if not part:
            raise Failed(f"ended without `{words.decode().strip()}`: {got.decode(errors='replace').strip()[-300:]}")
        got += part
    return got


@contextlib.contextmanager
def child(command: list[str], said: Path, **how: object) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program, and kills it if it is still running at the end; its standard error goes to a file."""
    with said.open("wb") as errors:
        # In a separate session, so that its own children are killed as well.
        begun = subprocess.Popen(command, stderr=errors, start_new_session=True, **how)  # type: ignore[call-overload]
    try:
        yield begun
    except Failed as why:
        raise Failed(f"{why}; messages: {said.read_text(errors='replace').strip()[-300:]}") from None
    finally:
        if begun.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(begun.pid, signal.SIGKILL)
        for stream in (begun.stdin, begun.stdout):
            if stream is not None:
                stream.close()
        begun.wait()


def ended(begun: subprocess.Popen[bytes], expected: int = 0) -> None:
    """Waits for the end of a program, and checks its exit status."""
    try:
        status = begun.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise Failed(f"did not end within {PATIENCE:.0f} s") from None
    if status != expected:
        raise Failed(f"exit status {status}, expected {expected}")


def wait_for_process(descriptor: int) -> None:
    """Waits for the end of a process that is not a child, by its pidfd."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(PATIENCE * 1000):
        raise Failed(f"did not end within {PATIENCE:.0f} s")


def remove_segments(size: int) -> None:
    """Removes System V segments of a size that are not attached and whose creator has ended."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    names = lines[0].split()
    for line in lines[1:]:
        segment = dict(zip(names, map(int, line.split()), strict=False))
        if segment["size"] == size and segment["nattch"] == 0 and not Path(f"/proc/{segment['cpid']}").exists():
            subprocess.run(["ipcrm", "-m", str(segment["shmid"])], check=False)


def kibibytes(name: str) -> int:
    """Returns the value of a line of /proc/meminfo in bytes."""
    found = re.search(rf"^{name}: +(\d+)", Path("/proc/meminfo").read_text(), re.M)
    return int(found[1]) << 10 if found else 0


def settle(size: int) -> None:
    """Allocates and frees as many huge pages as a program is about to use.

    A guest with free page reporting returns its free 2 MB blocks to the host, and their next use causes faults there,
    which take ten times as long as the guest's own. Without this, the first program would bear that cost.
    """
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory.madvise(MADV_POPULATE_WRITE)


def shared_memory() -> int:
    """Returns the number of bytes of shared memory in small and transparent huge pages."""
    return kibibytes("Shmem")


def until_given_back(before: int) -> None:
    """Waits until no more shared memory is in use than before a program."""
    wait_until("shared memory is freed", lambda: shared_memory() < before + NOISE)
