#!/usr/bin/env python3
"""Judges a dump as Debian's libkdumpfile reads it.

Its version differs from the one inside drgn, and its attributes show a reader's interpretation of the file:
architecture, kernel, page size, VMCOREINFO. Only the system's Python has the binding, so the script restarts itself
there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import bits
import dispatch_counts
from elfcore import EM_PPC64, ElfCore, Malformed, parse_vmcoreinfo
from kdump_layout import Kdump
from verdict import CannotJudge, Verdict

SYSTEM_PYTHON = "/usr/bin/python3"
SAMPLES = 4096
# Names of libkdumpfile for e_machine of ELF cores.
ARCHITECTURES = {EM_PPC64: "ppc64", 22: "s390x", 62: "x86_64", 183: "aarch64", 243: "riscv64"}


def run_inside() -> None:
    """Restarts the script in the system's Python unless this one has the binding."""
    try:
        import kdumpfile  # noqa: F401
    except ImportError:
        if os.path.realpath(sys.executable) == os.path.realpath(SYSTEM_PYTHON):
            raise CannotJudge("python3-libkdumpfile is not installed") from None
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])


def sample(pages: int) -> list[int]:
    """Returns evenly spread members, and both ends of every run, where mistakes are likely."""
    chosen = {pfn for start, end in bits.runs(pages) for pfn in (start, end - 1)}
    everything = list(bits.members(pages))
    step = max(1, len(everything) // SAMPLES)
    return sorted(chosen.union(everything[::step]))


def judge(source: str | Path, path: str | Path) -> Verdict:
    """Judges attributes and sampled pages; the process must have the binding."""
    import kdumpfile

    verdict = Verdict(f"libkdumpfile on {Path(path).name}")
    try:
        dump = Kdump(path)
        core = ElfCore(source, dump.block_size)
        reader = kdumpfile.kdumpfile(str(path))
    except (Malformed, kdumpfile.KDumpBaseException) as error:
        verdict.differ(f"{Path(path).name}: {error}")
        return verdict
    if not core.vmcoreinfo():
        raise CannotJudge(f"{Path(source).name} has no VMCOREINFO note")
    judge_attributes(reader.attr, core, dump, verdict)
    size = dump.block_size
    for pfn in sample(dump.described):
        where = f"pfn {pfn:#x} (address {pfn * size:#x})"
        try:
            ours = reader.read(kdumpfile.KDUMP_MACHPHYSADDR, pfn * size, size)
        except kdumpfile.KDumpBaseException as error:
            verdict.differ(f"{where}: {error}")
            continue
        theirs = core.read(pfn * size, size)
        if ours == theirs:
            verdict.count("pages equal")
        elif core.machine == EM_PPC64 and dispatch_counts.blanked(ours) == dispatch_counts.blanked(theirs):
            verdict.count("pages equal but for a dispatch count")
        else:
            verdict.differ(f"{where}: the bytes are not the source's")
    return verdict


def judge_attributes(attr, core: ElfCore, dump: Kdump, verdict: Verdict) -> None:
    """Judges the attributes that libkdumpfile reports for the file."""
    text = core.vmcoreinfo()
    info = parse_vmcoreinfo(text)
    expected = {
        "file.format": "diskdump",
        "arch.name": ARCHITECTURES[core.machine],
        "arch.page_size": dump.block_size,
        "arch.ptr_size": 8,
        "linux.uts.sysname": "Linux",
        "linux.uts.release": info["OSRELEASE"],
        "max_pfn": dump.max_mapnr,
        "cpu.number": dump.cpus,
    }
    if "NUMBER(phys_base)" in info:
        expected["linux.phys_base"] = int(info["NUMBER(phys_base)"], 0) % (1 << 64)
    for name, value in expected.items():
        found = attr.get(name)
        verdict.require(found == value, f"{name} is {found!r}, not {value!r}")
    raw = bytes(memoryview(attr["linux.vmcoreinfo.raw"]))
    verdict.require(raw == text, "VMCOREINFO is not the source's")


def judge_apart(source: Path, path: Path) -> Verdict:
    """Calls `judge` in the Python that has the binding."""
    verdict = Verdict(f"libkdumpfile on {path.name}")
    done = subprocess.run([SYSTEM_PYTHON, __file__, source, path], capture_output=True, text=True)
    if done.returncode == 3:
        raise CannotJudge(done.stderr.strip().removeprefix("SKIP "))
    verdict.require(done.returncode == 0, (done.stdout + done.stderr)[-1000:])
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", help="the ELF core that was dumped")
    parser.add_argument("dump")
    arguments = parser.parse_args()
    try:
        run_inside()
        return judge(arguments.source, arguments.dump).finish()
    except CannotJudge as error:
        return error.finish()


if __name__ == "__main__":
    sys.exit(main())
