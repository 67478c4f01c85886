"""The machine's settings for huge pages: reads them, and changes them temporarily."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

THP = Path("/sys/kernel/mm/transparent_hugepage")
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")


def chosen(name: str) -> str:
    """Returns the current value of transparent_hugepage/NAME."""
    try:
        text = (THP / name).read_text().strip()
    except OSError:
        return "absent"
    found = re.search(r"\[(\w+)\]", text)
    return found[1] if found else text


def machine() -> dict[str, str]:
    """Returns the properties of the machine that affect the results."""
    about = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", about, re.M)
    memory = re.search(r"^MemTotal: +(\d+)", Path("/proc/meminfo").read_text(), re.M)
    return {
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}, {model[1] if model else platform.machine()}",
        "memory": f"{int(memory[1]) >> 10 if memory else 0} MiB",
        "load": Path("/proc/loadavg").read_text().strip(),
        "THP": chosen("enabled"),
        "THP of shared memory": chosen("shmem_enabled"),
        "nr_hugepages": HUGE_PAGES.read_text().strip(),
    }


def end_cleanly() -> None:
    """Makes signals end this program by an exception, so that programs are ended and settings restored."""

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


@contextlib.contextmanager
def put_back(path: Path, value: str) -> Iterator[None]:
    """Changes a setting for the duration of a block."""
    old = path.read_text().strip()
    found = re.search(r"\[(\w+)\]", old)
    try:
        path.write_text(value)
        yield
    finally:
        path.write_text(found[1] if found else old)
