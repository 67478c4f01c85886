"""Memory limits: each call must end as in a plain run, and leave nothing behind."""

import os
import subprocess
import tempfile
from pathlib import Path

from lab import tools
from lab.errors import Unavailable

from . import left
from .cgroup import Cgroup
from .kills import TOLERANCE
from .parts import Results
from .run import PLAIN, SMALL, Library, Ran

MIB = 1 << 20
# In a control group of 64 MiB.
IN_GROUP = ("segment", "populate", "locked", "shared", "file", "file-populate")
# Under limits set by the program itself, as a user with 4 MiB of locked memory and as the current user.
BY_ITSELF = ("as", "as-tight", "threads", "file-size", "descriptors", "memlock", "locked", "segment")
POLICIES = (SMALL, f"{SMALL},destroy=parallel,attach=huge", f"{SMALL},attach=lock,huge=never")


def _run(
    program: Path, library: Library, what: str, size: int, file: str, more: dict[str, str], group: Cgroup | None
) -> Ran:
    done = subprocess.run(
        [program, "limit", what, str(size)], capture_output=True, text=True, timeout=1200,
        env=library.environment() | {"STORM_FILE": file} | more, preexec_fn=group.join if group else None,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout)


def _compare(name: str, plain: Ran, other: Ran, results: Results) -> None:
    wrong = ""
    if plain != other:
        both = (("plain", plain), ("library", other))
        wrong = "\n".join(f"    {who}: {ran.ended}: {'; '.join(ran.output.splitlines())}" for who, ran in both)
    elif left.segments() or not left.wait_until(lambda: not left.processes()):
        wrong = f"    remaining: segments {left.segments()}, processes {left.processes()}"
    results.record(name, wrong)


def _by_itself(program: Path, library: Path, results: Results) -> None:
    for what in BY_ITSELF:
        for user in ({}, {"STORM_LIMIT_LOCK": str(4 * MIB)}):
            plain = _run(program, PLAIN, what, 8 * MIB, "/dev/shm/limit", user, None)
            for policy in POLICIES:
                # A segment that may not be locked at once is silently left unlocked.
                other = _run(program, Library(library, policy), what, 8 * MIB, "/dev/shm/limit", user, None)
                _compare(f"limit {what} {user} {policy}", plain, other, results)


def _small_file_system(program: Path, library: Path, results: Results) -> None:
    with tempfile.TemporaryDirectory() as directory:
        tools.run(["mount", "-t", "tmpfs", "-o", "size=16m", "small", directory])
        try:
            for what in ("file", "file-populate"):
                file = f"{directory}/file"
                plain = _run(program, PLAIN, what, 64 * MIB, file, {}, None)
                other = _run(program, Library(library, SMALL), what, 64 * MIB, file, {}, None)
                _compare(f"small file system, {what}", plain, other, results)
                if os.listdir(directory):
                    results.record(f"small file system, {what}", "    a file remains")
        finally:
            tools.run(["umount", directory])


def limits(program: Path, library: Path, results: Results) -> None:
    """Runs all tests of limits."""
    _by_itself(program, library, results)
    _small_file_system(program, library, results)
    try:
        group = Cgroup("limits", 64 * MIB)
    except Unavailable as error:
        print(f"    tests with control groups not run: {error}")
        return
    with group:
        for what in IN_GROUP:
            before = group.usage()
            plain = _run(program, PLAIN, what, 256 * MIB, "/dev/shm/limit", {}, group)
            killed = group.killed()
            for policy in POLICIES:
                other = _run(program, Library(library, policy), what, 256 * MIB, "/dev/shm/limit", {}, group)
                _compare(f"limit of 64 MiB, {what}, {policy}", plain, other, results)
                if plain.status < 0:
                    ended = group.killed() - killed
                    results.record(f"limit of 64 MiB, {what}: killed processes", "" if ended == 1 else f"    {ended} processes")
                killed = group.killed()
                if not left.wait_until(lambda: group.usage() <= before + TOLERANCE):
                    results.record(f"limit of 64 MiB, {what}", f"    {group.usage() - before} bytes were not freed")
