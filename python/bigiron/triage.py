"""One table of the crashes of many machines, made by processes of this machine or of a Ray cluster.

`run` describes dumps and text logs by the program `bigiron triage`, which has to be on PATH of every machine, and writes a
directory of Parquet files (docs/fleet.md). Each dump is read by a process of its own, with limits, so a bad dump costs
its own row an error. Run it again to add dumps: those that are done are skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

__all__ = ["Summary", "TriageError", "run"]

_SUMMARY = re.compile(r": (\d+) rows, (\d+) new, (\d+) done before, (\d+) could not be described; complete$", re.MULTILINE)
# What the program says of a part of the table that another process writes still.
_BUSY = "another run writes this part"
_BUSY_TRIES = 60


class TriageError(Exception):
    """The table could not be made. A dump that cannot be read is no such error: it has a row."""


@dataclass(frozen=True)
class Summary:
    """What was done: numbers of rows."""

    rows: int
    """Rows in the table."""
    new: int
    """Dumps described now."""
    done_before: int
    """Dumps that were skipped."""
    failed: int
    """Rows whose dump could not be described."""


def run(
    sources: Iterable[str | PathLike[str]],
    output: str | PathLike[str],
    *,
    jobs: int | None = None,
    timeout: int | None = None,
    memory_limit: int | None = None,
    no_host: bool = False,
    retry: bool = False,
    program: str | PathLike[str] | None = None,
    ray: bool = False,
    shards: int | None = None,
    task_memory: int | None = None,
) -> Summary:
    """Describes `sources`, as `bigiron triage` takes them, and writes the table to the directory `output`.

    By default processes of this machine do it, `jobs` at a time. With `ray=True` the Ray cluster that the program is
    connected to, or a new one, does: the dumps are divided among `shards` tasks (by default four for each CPU of the
    cluster), of which each takes one CPU and `task_memory` bytes. A task whose node dies runs again on another one and
    goes on where it was. All nodes must reach the sources and `output` under the same names.
    """
    options = []
    for name, value in (("--timeout", timeout), ("--memory-limit", memory_limit)):
        if value is not None:
            options.append(f"{name}={value}")
    options += [name for name, value in (("--no-host", no_host), ("--retry", retry)) if value]
    found = program or shutil.which("bigiron")
    if found is None:
        raise TriageError("the program bigiron is not on PATH; install it, or give `program`")
    command = [os.fspath(found), "triage", f"--output={os.fspath(output)}", "--files-from=-", *options]
    names = "".join(f"{os.fspath(source)}\n" for source in sources)
    if not ray:
        if shards is not None or task_memory is not None:
            raise ValueError("shards and task_memory are those of Ray; give ray=True")
        return _one([*command, *([f"--jobs={jobs}"] if jobs else [])], names)
    return _on_ray(command, names, jobs or 1, shards, task_memory)


def _one(command: list[str], names: str) -> Summary:
    """Runs the program for one part of the table."""
    for tries in range(_BUSY_TRIES):
        done = subprocess.run(command, input=names, capture_output=True, text=True, errors="replace", check=False)
        # The process of a node that was lost may live on for a while.
        if done.returncode == 0 or _BUSY not in done.stderr or tries == _BUSY_TRIES - 1:
            break
        time.sleep(1)
    said = _SUMMARY.search(done.stdout)
    if done.returncode != 0 or said is None:
        reason = done.stderr.strip().splitlines()[-1:] or [f"bigiron ended with status {done.returncode}"]
        raise TriageError(reason[0].removeprefix("bigiron: "))
    rows, new, done_before, failed = map(int, said.groups())
    return Summary(rows, new, done_before, failed)


def _on_ray(command: list[str], names: str, jobs: int, shards: int | None, memory: int | None) -> Summary:
    """Runs the program on a Ray cluster, once for each part of the table."""
    try:
        import ray
    except ImportError as error:
        raise TriageError("Ray is not installed: pip install 'bigiron[ray]'") from error
    if not ray.is_initialized():
        ray.init()
    count = shards or max(1, 4 * int(ray.cluster_resources().get("CPU", 1)) // jobs)
    resources: dict[str, Any] = {"num_cpus": jobs, "max_retries": -1}
    if memory is not None:
        resources["memory"] = memory
    task = ray.remote(**resources)(_one)
    stored = ray.put(names)
    parts = [task.remote([*command, f"--jobs={jobs}", f"--shard={index}/{count}"], stored) for index in range(count)]
    done: list[Summary] = ray.get(parts)
    return Summary(*(sum(getattr(part, field) for part in done) for field in Summary.__dataclass_fields__))
