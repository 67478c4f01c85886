"""Judges whether drgn, with debug symbols, can read the dump of a running kernel.

Lists that changed during the dump may be broken, so only constant data of the kernel is read.
"""

import hashlib
from pathlib import Path
from typing import Any

from verdict import Verdict


def open_dump(vmlinux: str | Path, dump: str | Path) -> Any:
    """Returns a drgn program for the dump."""
    import drgn

    program = drgn.Program()
    program.set_core_dump(str(dump))
    program.load_debug_info([str(vmlinux)])
    return program


def constants(vmlinux: str | Path, dump: str | Path) -> str:
    """Returns a digest of the kernel's read-only memory, which is constant after its start and equal in every dump of
    it."""
    program = open_dump(vmlinux, dump)
    start, end = (program.symbol(name).address for name in ("__start_rodata", "__end_rodata"))
    return hashlib.sha256(program.read(start, end - start)).hexdigest()


def judge(vmlinux: str | Path, dump: str | Path, release: str) -> Verdict:
    """Judges the kernel's name, its first tasks, and one of its modules."""
    from drgn.helpers.linux import find_task, for_each_module

    verdict = Verdict(f"drgn in {Path(dump).name}")
    program = open_dump(vmlinux, dump)
    found = program["init_uts_ns"].name.release.string_().decode()
    verdict.require(found == release, f"the release is {found}, not {release}")
    names = {pid: find_task(program, pid).comm.string_().decode() for pid in (1, 2)}
    verdict.require(names == {1: "init", 2: "kthreadd"}, f"the first tasks are {names}")
    modules = {module.name.string_().decode() for module in for_each_module(program)}
    verdict.require("virtio_blk" in modules, f"no virtio_blk among the modules {sorted(modules)}")
    return verdict
