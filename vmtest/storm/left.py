"""Finds what programs left behind in these namespaces, which contain nothing else."""

import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path

IPC_RMID = 0


def reap() -> None:
    """Reaps orphaned processes, which become children of the first process."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def processes() -> list[str]:
    """Returns the other processes, as number and name."""
    reap()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if int(path.name) != os.getpid():
                found.append(f"{path.name} ({(path / 'comm').read_text().strip()})")
        except OSError:
            continue
    return found


def segments() -> list[tuple[int, int, int]]:
    """Returns the System V segments, as id, bytes and number of attachments."""
    lines = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return [(int(fields[1]), int(fields[3]), int(fields[6])) for fields in lines]


def remove_segments() -> None:
    """Removes the segments of killed programs."""
    for number, _, _ in segments():
        ctypes.CDLL(None).shmctl(number, IPC_RMID, None)


def files() -> list[str]:
    """Returns the files in /dev/shm."""
    return [path.name for path in Path("/dev/shm").iterdir()]


def wait_until(condition: Callable[[], bool], seconds: float = 300) -> bool:
    """Waits until the condition holds; returns false after a timeout."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
