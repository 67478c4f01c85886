"""One real vmcore, and the files that several rows of the matrix use."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import crash_text
import kdump_layout
import mend_elf
import same_bitmap
import same_dmesg
import same_pages
from elfcore import ElfCore
from explain import Explainer
from kdump_layout import Kdump
from tools import Bigiron, Makedumpfile
from verdict import CannotJudge, Verdict

CODECS = ("none", "zlib", "lzo", "snappy", "zstd", "adaptive")
# A disk so slow that adaptive compression chooses all codecs.
SLOW_DISK = "20M"
FULL = 31
Check = Callable[[], Verdict]
Row = tuple[str, Check]


class Case:
    """One vmcore and its shared files: the first process that needs a reference makes it."""

    def __init__(
        self,
        vmcore: Path,
        directory: Path,
        makedumpfile: Makedumpfile,
        bigiron: Bigiron,
        expected: Path | None,
    ) -> None:
        self.vmcore = vmcore
        self.directory = directory
        self.makedumpfile = makedumpfile
        self.bigiron = bigiron
        self.expected = expected

    @contextmanager
    def _to_make(self, name: str) -> Iterator[tuple[Path, bool]]:
        """Yields the path of a shared file, and true if it must still be made. Other processes wait until it is
        complete."""
        target = self.directory / name
        with open(self.directory / f".{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = self.directory / f".{name}.done"
            yield target, not done.exists()
            done.touch()

    @property
    def crashed(self) -> bool:
        """Returns true if the kernel crashed and was dumped by kdump, false if QEMU dumped a running one."""
        return "-kdump-" in self.vmcore.parent.name

    @cached_property
    def openable(self) -> Path:
        """Returns the vmcore in a form that makedumpfile opens."""
        if not mend_elf.needs_mending(ElfCore(self.vmcore)):
            return self.vmcore
        with self._to_make("mended") as (mended, missing):
            if missing:
                mend_elf.mend(str(self.vmcore), str(mended))
        return mended

    @cached_property
    def explainer(self) -> Explainer | None:
        """Returns the rules, or None for kernels that they do not cover."""
        try:
            return Explainer(self.vmcore)
        except CannotJudge:
            return None

    def reference(self, level: int) -> Path:
        """Returns makedumpfile's dump of a level."""
        openable = self.openable
        with self._to_make(f"reference-{level}") as (target, missing):
            if missing:
                target.unlink(missing_ok=True)
                self.makedumpfile.dump(openable, target, level)
        return target

    @cached_property
    def log(self) -> bytes:
        """Returns the kernel's log, by makedumpfile."""
        return same_dmesg.by_makedumpfile(self.makedumpfile, self.openable, self.scratch)

    def judge_by_crash(self, dump: Path, vmlinux: Path) -> Verdict:
        """Judges that crash prints the same for a dump as for the vmcore, which is queried only once."""
        with self._to_make("crash-output") as (kept, missing):
            if missing:
                ours, theirs = crash_text.run(str(vmlinux), [str(dump), str(self.openable)], crash_text.COMMANDS)
                kept.write_bytes(pickle.dumps(theirs))
        if not missing:
            theirs = pickle.loads(kept.read_bytes())
            (ours,) = crash_text.run(str(vmlinux), [str(dump)], crash_text.COMMANDS)
        return crash_text.compare_answers((str(dump), str(self.openable)), ours, theirs)

    @property
    def scratch(self) -> Path:
        """Returns the directory for a row's own files."""
        return self.directory / f"scratch-{os.getpid()}"

    @property
    def target(self) -> Path:
        """Returns the path of a row's dump."""
        return self.scratch / "dump"

    def clear(self) -> None:
        """Begins a row: removes the files of the previous one."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()

    def judge(self, dump: Path, level: int, codec: str | None = None) -> Verdict:
        """Judges structure, page frames and bytes of one kdump-compressed file."""
        verdict = Verdict("dump")
        structure = kdump_layout.judge(dump)
        verdict.merge(structure)
        if structure.passed:
            judge_codec(dump, codec, verdict)
            self.judge_selection(dump, level, verdict)
            verdict.merge(same_pages.judge(self.vmcore, dump))
        return verdict

    def judge_selection(self, dump: Path, level: int, verdict: Verdict) -> None:
        """Judges the selection of page frames."""
        reference = self.reference(level)
        if self.explainer:
            ours, theirs = Kdump(dump), Kdump(reference)
            same_bitmap.compare_sets("RAM", ours.ram, theirs.ram, verdict)
            right = self.explainer.expected(ours.ram, level, ours.max_mapnr)
            same_bitmap.compare_sets("dumped, by the rules", ours.dumped, right, verdict)
            verdict.merge(
                self.explainer.judge(ours.dumped, theirs.dumped, level, ours.max_mapnr)
            )
        else:
            verdict.merge(same_bitmap.judge(dump, reference))
        if self.expected:
            for name in ("ram.bitmap", f"level-{level:02}.bitmap"):
                verdict.merge(same_bitmap.judge(dump, self.expected / name))


def judge_codec(dump: Path, codec: str | None, verdict: Verdict) -> None:
    """Judges that the requested codec was used: a dump of raw pages would be valid, but large."""
    if codec is None:
        return
    name = codec.split(":")[0]
    status = Kdump(dump).status
    found = {codec for bit, codec in kdump_layout.CODECS.items() if status & bit}
    right = {"none": set(), "adaptive": kdump_layout.ADAPTIVE}.get(name, {name})
    verdict.require(found == right, f"requested {name}, the header has {sorted(found)}")
