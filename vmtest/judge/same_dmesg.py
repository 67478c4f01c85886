#!/usr/bin/env python3
"""Judges whether `bigiron dmesg` prints a dump's kernel log as other programs do.

makedumpfile --dump-dmesg, vmcore-dmesg of kexec-tools and crash's `log` write the same log in slightly different forms.
Each is compared with bigiron's output, byte by byte, as far as the form allows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import crash_text
from tools import Bigiron, Makedumpfile, ToolFailed
from verdict import CannotJudge, Verdict

SECONDS = 900
# Minimum lines in the log of any kernel from its start to its crash.
LEAST_LINES = 50


def equal(what: str, ours: bytes, theirs: bytes, verdict: Verdict) -> None:
    """Compares two logs line by line, including line feeds."""
    a, b = ours.splitlines(keepends=True), theirs.splitlines(keepends=True)
    verdict.require(len(b) >= LEAST_LINES, f"{what}: only {len(b)} lines to compare with")
    for number, (left, right) in enumerate(zip(a, b), 1):
        if left == right:
            verdict.count("lines equal")
        else:
            verdict.differ(f"{what}, line {number}: ours {left!r}, theirs {right!r}")
    if len(a) != len(b):
        verdict.differ(f"{what}: {len(a)} lines in ours, {len(b)} in theirs")


def narrow_escapes(log: bytes) -> bytes:
    """Shortens the escapes of bytes above 127, which makedumpfile prints as negative numbers, and
    escapes the white space that it prints as it is."""
    log = re.sub(rb"[\r\v\f]", lambda found: b"\\x%02x" % found.group()[0], log)
    return re.sub(rb"\\xffffff([89a-f][0-9a-f])", rb"\\x\1", log)


def by_makedumpfile(makedumpfile: Makedumpfile, openable: Path, directory: Path) -> bytes:
    """Returns makedumpfile's text of a dump's log."""
    target = directory / "log"
    makedumpfile.log(openable, target)
    return narrow_escapes(target.read_bytes())


def judge(bigiron: Bigiron, dump: Path, reference: bytes) -> Verdict:
    """Compares a dump's log with makedumpfile's log of the source vmcore."""
    verdict = Verdict("dmesg")
    equal("makedumpfile", bigiron.log(dump), reference, verdict)
    numbers = [json.loads(line)["seq"] for line in bigiron.log(dump, "--json").splitlines()]
    last = numbers[-1] if numbers else 0
    verdict.require(
        numbers == sorted(set(numbers)) and len(numbers) >= LEAST_LINES,
        f"--json: {len(numbers)} records, up to {last}, are not in order",
    )
    return verdict


def judge_vmcore_dmesg(bigiron: Bigiron, vmcore: Path, directory: Path) -> Verdict:
    """Compares vmcore-dmesg of kexec-tools with bigiron called by that name."""
    theirs = shutil.which("vmcore-dmesg", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if not theirs:
        raise CannotJudge("vmcore-dmesg (kexec-tools) is not installed")
    ours = directory / "vmcore-dmesg"
    ours.symlink_to(bigiron.program.resolve())
    output = [
        subprocess.run([str(program), str(vmcore)], capture_output=True, timeout=SECONDS)
        for program in (ours, theirs)
    ]
    # vmcore-dmesg uses the virtual addresses of PT_LOADs, which QEMU does not write.
    if b"No program header covering" in output[1].stderr:
        raise CannotJudge("vmcore-dmesg finds no virtual addresses in this ELF core")
    verdict = Verdict("vmcore-dmesg")
    for ended in output:
        verdict.require(ended.returncode == 0, ended.stderr.decode(errors="replace").strip())
    equal("vmcore-dmesg", output[0].stdout, output[1].stdout, verdict)
    return verdict


def judge_crash(bigiron: Bigiron, vmlinux: Path, dump: Path) -> Verdict:
    """Compares with crash's `log`, without trailing spaces."""
    (answers,) = crash_text.run(str(vmlinux), [str(dump)], ("log",))
    theirs = answers.commands.get("log", [])
    if len(theirs) < LEAST_LINES:
        output = " / ".join(filter(None, answers.start_up))[:200]
        raise CannotJudge(f"crash prints no log: {output or 'no output'}")
    ours = crash_text.clean(bigiron.log(dump).decode(errors="replace"))
    verdict = Verdict("crash log")
    crash_text.compare("log", ours, theirs, verdict)
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bigiron", type=Path)
    parser.add_argument("dump", type=Path)
    parser.add_argument("vmcore", type=Path, help="in a form that makedumpfile opens")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="same-dmesg-") as directory:
            reference = by_makedumpfile(Makedumpfile(), arguments.vmcore, Path(directory))
        return judge(Bigiron(arguments.bigiron), arguments.dump, reference).finish()
    except CannotJudge as error:
        return error.finish()
    except ToolFailed as error:
        print(f"FAIL {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
