"""Rows of the matrix: data read from a dump by other programs and by bigiron."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import drgn_tasks
import libkdumpfile_read
import mounted
import same_dmesg
import same_erase
import same_info
import same_memory
import same_modules
import same_names
import same_tasks
import same_traces
import same_values
from case import FULL, SLOW_DISK, Case, Row
from tools import run
from verdict import CannotJudge, Verdict


def dmesg_rows(case: Case, vmlinux: Path | None) -> Iterator[Row]:
    """The kernel's log, which every dump must contain."""

    def of_dump(form: str, codec: str) -> Verdict:
        case.bigiron.dump(case.vmcore, case.target, FULL, codec, form=form)
        return same_dmesg.judge(case.bigiron, case.target, case.log)

    def of_makedumpfile() -> Verdict:
        return same_dmesg.judge(case.bigiron, case.reference(FULL), case.log)

    yield "dmesg of the vmcore", lambda: same_dmesg.judge(case.bigiron, case.vmcore, case.log)
    for form, codec in (("kdump", "zstd"), ("flattened", "zlib"), ("elf", "none"), ("vmdump", "zstd")):
        yield f"dmesg of -d 31 -f {form}", lambda f=form, c=codec: of_dump(f, c)
    yield "dmesg of makedumpfile's dump -d 31", of_makedumpfile
    yield "vmcore-dmesg by both programs", lambda: same_dmesg.judge_vmcore_dmesg(
        case.bigiron, case.vmcore, case.scratch
    )
    if vmlinux:
        yield "dmesg and crash's log", lambda: same_dmesg.judge_crash(
            case.bigiron, vmlinux, case.openable
        )


def reader_rows(case: Case, codec: str, vmlinux: Path | None) -> Iterator[Row]:
    """Other programs that open the dump."""

    def made() -> Path:
        target = case.target
        limit = SLOW_DISK if codec == "adaptive" else None
        case.bigiron.dump(case.vmcore, target, FULL, codec, write_limit=limit)
        return target

    def libkdumpfile() -> Verdict:
        return other_python(libkdumpfile_read.__file__, str(case.vmcore), str(made()))

    yield f"Debian's libkdumpfile reads -d 31 -c {codec}", libkdumpfile
    if vmlinux:
        yield f"drgn lists the tasks of -d 31 -c {codec}", lambda: drgn_tasks.judge(
            vmlinux, made(), case.vmcore
        )
        yield f"info on -d 31 -c {codec} and drgn", lambda: same_info.judge(
            case.bigiron, vmlinux, made(), case.vmcore
        )
        yield f"info --memory --pages on -d 31 -c {codec}, drgn and crash", lambda: same_memory.judge(
            case.bigiron, vmlinux, made(), case.vmcore, case.openable
        )
        yield f"sym and type on -d 31 -c {codec} and drgn", lambda: same_names.judge(
            case.bigiron, vmlinux, made(), case.vmcore
        )
        yield f"modules on -d 31 -c {codec} and drgn", lambda: same_modules.judge(
            case.bigiron, vmlinux, made(), case.vmcore
        )
        yield f"tasks and stacks on -d 31 -c {codec} and drgn", lambda: same_tasks.judge(
            case.bigiron, vmlinux, made(), case.vmcore
        )
        yield f"modules on -d 31 -c {codec} and crash", lambda: same_modules.judge_by_crash(
            case.bigiron, vmlinux, made(), case.openable
        )
        yield f"read on -d 31 -c {codec} and drgn", lambda: same_values.judge(
            case.bigiron, vmlinux, made(), case.vmcore
        )
        yield f"crash on -d 31 -c {codec}", lambda: case.judge_by_crash(made(), vmlinux)


def trace_rows(case: Case) -> Iterator[Row]:
    """The stacks of tasks, without debug symbols."""
    yield "stacks and the kernel's own traces", lambda: same_traces.judge(case.bigiron, case.vmcore)


def mounted_rows(case: Case, quick: bool, vmlinux: Path) -> Iterator[Row]:
    """Mounted dumps, for programs that read plain cores."""

    def of(form: str, codec: str) -> Verdict:
        parts = [case.target]
        if form == "stripes":
            parts = [case.scratch / f"stripe-{number}" for number in range(3)]
            names = ",".join(map(str, parts))
            run([str(case.bigiron.program), "dump", "-q", "-d", str(FULL), "--stripe", names, str(case.vmcore)])
        else:
            case.bigiron.dump(case.vmcore, case.target, FULL, codec, form=form)
        return mounted.judge(
            case.bigiron, vmlinux, parts, case.openable, lambda core: case.judge_by_crash(core, vmlinux)
        )

    forms = (("vmdump", "zstd"), ("kdump", "zstd"), ("stripes", "zstd"), ("flattened", "zlib"))
    for form, codec in forms[: 1 if quick else None]:
        yield f"mounted: -d 31 -f {form} -c {codec}", lambda f=form, c=codec: of(f, c)


def erase_rows(case: Case, quick: bool, vmlinux: Path | None) -> Iterator[Row]:
    """Erased data, and VMCOREINFO made from vmlinux; both need debug symbols."""

    def symbols() -> Path:
        if case.explainer:
            raise CannotJudge("makedumpfile 1.7.2 cannot read the modules of this kernel")
        if not vmlinux:
            raise CannotJudge("no vmlinux with debug symbols (vmtest/vmcores debuginfo)")
        return vmlinux

    yield "erased as makedumpfile --config erases", lambda: same_erase.judge(
        case.makedumpfile, case.bigiron, case.openable, symbols(), case.scratch
    )
    if vmlinux and not quick:
        yield "VMCOREINFO as makedumpfile -g writes it", lambda: same_erase.judge_vmcoreinfo(
            case.makedumpfile, case.bigiron, vmlinux, case.scratch
        )


def other_python(script: str, *arguments: str) -> Verdict:
    """Runs a judge in another Python process; returns its verdict."""
    ended = subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True
    )
    if ended.returncode == 3:
        raise CannotJudge(ended.stderr.strip().removeprefix("SKIP "))
    verdict = Verdict(Path(script).stem)
    verdict.require(ended.returncode == 0, ended.stdout.strip() or ended.stderr.strip())
    return verdict
