"""A memory control group, version 1 or 2: limits memory during a test, and measures what remains afterwards."""

import os
from contextlib import suppress
from pathlib import Path

from lab.errors import Unavailable

ROOT = Path("/sys/fs/cgroup")


class Cgroup:
    """A control group with a limit in bytes. It is created by the constructor, and removed at the end of the `with`
    block, when it is empty."""

    def __init__(self, name: str, most: int | None = None) -> None:
        self.old = (ROOT / "memory" / "cgroup.procs").exists()
        parent = ROOT / "memory" if self.old else ROOT
        self.path = parent / f"bigiron-{name}.{os.getpid()}"
        try:
            self.path.mkdir()
            if not (self.path / self._usage).exists():
                # In version 2, a group has a controller only if its parent enables it.
                (parent / "cgroup.subtree_control").write_text("+memory")
            if most is not None:
                (self.path / self._limit).write_text(str(most))
        except OSError as error:
            with suppress(OSError):
                self.path.rmdir()
            raise Unavailable(f"no control group for memory: {error}") from error

    @property
    def _limit(self) -> str:
        return "memory.limit_in_bytes" if self.old else "memory.max"

    @property
    def _usage(self) -> str:
        return "memory.usage_in_bytes" if self.old else "memory.current"

    def join(self) -> None:
        """Moves the calling process into the group. Called in a child."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def usage(self) -> int:
        """Returns the bytes charged to the group without page cache: the programs' own file pages are charged to the
        first reader, and stay cached."""
        stat = dict(line.split() for line in (self.path / "memory.stat").read_text().splitlines())
        files = int(stat["cache" if self.old else "file"]) - int(stat["shmem"])
        return int((self.path / self._usage).read_text()) - files

    def killed(self) -> int:
        """Returns the number of processes killed by the kernel for lack of memory."""
        text = (self.path / ("memory.oom_control" if self.old else "memory.events")).read_text()
        return int(next(line.split()[1] for line in text.splitlines() if line.startswith("oom_kill ")))

    def __enter__(self) -> "Cgroup":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.path.rmdir()
