"""What all measured programs have in common: starting them, waiting, and the machine's own figures."""

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
# No step of any program takes longer, even on a busy machine.
PATIENCE = 180.0
# How often a program is asked whether it is ready.
TICK = 0.002
# Shared memory that other programs may come to use meanwhile.
NOISE = 64 << 20

# Linux 5.14, include/uapi/asm-generic/mman-common.h.
MADV_POPULATE_WRITE = 23

Phases = dict[str, float]


class CannotRun(Exception):
    """A program that cannot be measured here, and why."""


class Failed(Exception):
    """A program that was measured and did not do what it should."""


class Case(ABC):
    """A program with its settings."""

    # What it is called in the table.
    name: str
    # Whether its memory is shared memory, which shmem_enabled decides on.
    shared = False
    # Bytes that it takes at most.
    memory: int
    # What `run` runs, for the record.
    command: list[str]
    # The phase that counts for the verdict.
    total = "all"

    def prepare(self) -> None:
        """Makes what it needs, once; raises CannotRun."""

    @abstractmethod
    def run(self, prefix: list[str]) -> Phases:
        """Runs it once, behind the words of `prefix`; gives the seconds of its phases."""

    def version(self) -> str:
        """Which version of the program it is."""
        return ""


def need(program: str, package: str) -> str:
    """The path of a program."""
    path = shutil.which(program)
    if path is None:
        raise CannotRun(f"{program} is not installed: apt-get install {package}")
    return path


def first_line(*command: str) -> str:
    """The first line that a command prints."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return (done.stdout.strip().splitlines() or [""])[0]


def wait_until(what: str, is_so: Callable[[], bool], alive: Callable[[], bool] = lambda: True) -> None:
    """Waits until something is so, while a program lives."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        if not alive():
            raise Failed(f"{what}: the program ended before")
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {PATIENCE:.0f} s")
        time.sleep(TICK)


def connect(path: Path) -> socket.socket | None:
    """A connection to a Unix socket, if somebody listens there."""
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(PATIENCE)
    try:
        one.connect(str(path))
    except OSError:
        one.close()
        return None
    return one


def ask(path: Path, words: bytes) -> bytes:
    """What a server answers to one line; nothing if it does not listen."""
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
    """What a program prints up to and with some words; raises Failed where it ends before."""
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
    """A program that is killed where it is left running; its standard error goes to a file."""
    with said.open("wb") as errors:
        # A session of its own: what it starts itself is killed too.
        begun = subprocess.Popen(command, stderr=errors, start_new_session=True, **how)  # type: ignore[call-overload]
    try:
        yield begun
    except Failed as why:
        raise Failed(f"{why}; it said: {said.read_text(errors='replace').strip()[-300:]}") from None
    finally:
        if begun.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(begun.pid, signal.SIGKILL)
        for stream in (begun.stdin, begun.stdout):
            if stream is not None:
                stream.close()
        begun.wait()


def ended(begun: subprocess.Popen[bytes], expected: int = 0) -> None:
    """Waits for the end of a program, and looks at its exit status."""
    try:
        status = begun.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise Failed(f"does not end within {PATIENCE:.0f} s") from None
    if status != expected:
        raise Failed(f"exit status {status}, not {expected}")


def wait_for_process(descriptor: int) -> None:
    """Waits for the end of a process that is no child, by its pidfd."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(PATIENCE * 1000):
        raise Failed(f"does not end within {PATIENCE:.0f} s")


def remove_segments(size: int) -> None:
    """Removes System V segments of a size that nobody has attached, and whose maker is gone."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    names = lines[0].split()
    for line in lines[1:]:
        segment = dict(zip(names, map(int, line.split()), strict=False))
        if segment["size"] == size and segment["nattch"] == 0 and not Path(f"/proc/{segment['cpid']}").exists():
            subprocess.run(["ipcrm", "-m", str(segment["shmid"])], check=False)


def kibibytes(name: str) -> int:
    """A line of /proc/meminfo in bytes."""
    found = re.search(rf"^{name}: +(\d+)", Path("/proc/meminfo").read_text(), re.M)
    return int(found[1]) << 10 if found else 0


def settle(size: int) -> None:
    """Takes and frees huge pages, as many as a program is about to take.

    A guest with free page reporting gives its free 2 MB blocks back to the host, and their next use
    costs faults there, ten times what the guest itself does: whoever came first would pay for it.
    """
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory.madvise(MADV_POPULATE_WRITE)


def shared_memory() -> int:
    """Bytes of shared memory in small and transparent huge pages."""
    return kibibytes("Shmem")


def until_given_back(before: int) -> None:
    """Waits until no more shared memory is in use than before a program."""
    wait_until("shared memory is given back", lambda: shared_memory() < before + NOISE)
