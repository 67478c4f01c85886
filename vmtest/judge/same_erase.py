#!/usr/bin/env python3
"""Judges whether bigiron erases the same data as `makedumpfile --config`.

Both programs make a dump with the same commands and the same vmlinux. Every page, read by drgn, must be equal, and so
must the dumps' records of the erased data. The VMCOREINFO files that `-g` makes from this vmlinux are compared too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import bits
import peers_venv
from kdump_layout import Kdump
from same_pages import LONGEST_READ, DrgnReader
from tools import SECONDS, Bigiron, Makedumpfile, ToolFailed
from verdict import CannotJudge, Verdict

LEVEL = "31"
# One command of each kind: members, strings, numbers, sizes, pointers, an array, lists by list_head in both directions
# and by their own pointers. Two commands are invalid.
COMMANDS = """\
erase init_uts_ns.name.nodename
erase saved_command_line
erase panic_timeout
erase init_task.se.load.weight
erase linux_banner size 20
erase no_such_symbol
erase init_task.no_such_member
[vmlinux]
for task in init_task.tasks within task_struct:tasks
    erase task.comm
    erase task.mm nullify
    erase task.cred
endfor
for task in init_task.tasks.prev within task_struct:tasks
    erase task.stack size 100
endfor
for block in super_blocks.next within super_block:s_list
    erase block.s_id
    erase block.s_type.name
endfor
for kind in file_systems via next
    erase kind.name
endfor
for word in envp_init
    erase word
endfor
"""


def eraseinfo(dump: Path) -> bytes:
    """Returns a dump's record of the erased data."""
    data = dump.read_bytes()
    at = Kdump(dump).block_size
    offset, size = (int.from_bytes(data[at + i : at + i + 8], "little") for i in (64, 72))
    return data[offset : offset + size]


def same_pages(ours: Path, theirs: Path, verdict: Verdict) -> None:
    """Compares all pages of two dumps, which must have the same pages."""
    described = Kdump(ours).described
    if not verdict.require(described == Kdump(theirs).described, "different pages are dumped"):
        return
    size = Kdump(ours).block_size
    readers = DrgnReader(ours), DrgnReader(theirs)
    for first, last in bits.runs(described, LONGEST_READ):
        a, b = (reader.read(first * size, (last - first) * size) for reader in readers)
        if isinstance(a, bytes) and a == b:
            verdict.count("pages equal", last - first)
        else:
            verdict.differ(f"pfn {first:#x} to {last:#x} are not equal")


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if ended.returncode != 0:
        last = (ended.stderr + ended.stdout).strip().splitlines()[-3:]
        raise ToolFailed(f"{' '.join(command)}: exit {ended.returncode}: {' / '.join(last)}")
    return ended


def judge(
    makedumpfile: Makedumpfile, bigiron: Bigiron, source: Path, vmlinux: Path, scratch: Path
) -> Verdict:
    """Compares the results of the same commands in both programs."""
    config, ours, theirs = (scratch / name for name in ("config", "ours", "theirs"))
    config.write_text(COMMANDS)
    options = ["-f", "-d", LEVEL, "--config", str(config), "-x", str(vmlinux), str(source)]
    try:
        run([*makedumpfile.command, *options, str(theirs)])
    except ToolFailed as error:
        raise CannotJudge(f"makedumpfile does not erase from this kernel: {error}") from None
    output = run([str(bigiron.program), "makedumpfile", *options, str(ours)]).stderr
    verdict = Verdict("erased")
    for line in ("Config error at 6: symbol", "Config error at 7: struct"):
        verdict.require(line in output, f"our output lacks {line!r}")
    same_pages(ours, theirs, verdict)
    text = eraseinfo(theirs)
    verdict.require(text.count(b"\n") > 50, f"makedumpfile erased only {text!r}")
    verdict.require(eraseinfo(ours) == text, "the erase info differs")
    return verdict


def judge_vmcoreinfo(
    makedumpfile: Makedumpfile, bigiron: Bigiron, vmlinux: Path, scratch: Path
) -> Verdict:
    """Compares VMCOREINFO made from vmlinux by both programs."""
    ours, theirs = scratch / "ours.info", scratch / "theirs.info"
    run([*makedumpfile.command, "-g", str(theirs), "-x", str(vmlinux)])
    run([str(bigiron.program), "makedumpfile", "-g", str(ours), "-x", str(vmlinux)])
    verdict = Verdict("VMCOREINFO")
    a, b = (set(path.read_text().splitlines()) for path in (ours, theirs))
    verdict.count("lines equal", len(a & b))
    verdict.require(len(b) > 50, f"makedumpfile wrote only {len(b)} lines")
    for line in sorted(a ^ b):
        verdict.differ(f"only {'ours' if line in a else 'theirs'} has {line}")
    return verdict


def main() -> int:
    peers_venv.run_inside()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bigiron", type=Path)
    parser.add_argument("vmlinux", type=Path, help="with debug symbols")
    parser.add_argument("source", type=Path, help="a vmcore that makedumpfile opens")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bigiron-erase-") as directory:
        try:
            verdict = judge(
                Makedumpfile(),
                Bigiron(options.bigiron.resolve()),
                options.source,
                options.vmlinux,
                Path(directory),
            )
        except CannotJudge as error:
            return error.finish()
        return verdict.finish()


if __name__ == "__main__":
    sys.exit(main())
