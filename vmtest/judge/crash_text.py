#!/usr/bin/env python3
"""Judges whether crash prints the same for two dumps of one vmcore.

Each dump is opened by its own crash, concurrently. crash's error messages are the same for both dumps, and are compared
like all other lines. A crash that does not reach its prompt has judged nothing, which is reported by exit code 3.
Debian's crash 8.0.2 opens kernel 6.1, but not 6.12.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from verdict import CannotJudge, Verdict

COMMANDS = ("sys", "log", "ps", "bt -a", "kmem -i", "kmem -V", "kmem -s", "mod", "runq")
INSTALLED = ("crash",)
SECONDS = 900


def start(
    program: tuple[str, ...], vmlinux: str, dump: str, directory: Path, commands: tuple[str, ...]
) -> subprocess.Popen[str]:
    """Starts one crash in batch mode that writes each command's output to a numbered file."""
    script = directory / "commands"
    lines = [f"{command} > {directory}/{n}" for n, command in enumerate(commands)]
    script.write_text("\n".join([*lines, "quit", ""]))
    return subprocess.Popen(
        [*program, "-s", "-i", str(script), vmlinux, dump],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def clean(text: str) -> list[str]:
    """Returns the lines without terminal noise and without the dump's own name."""
    text = re.sub(r"\r|\x08|\x1b\[[0-9;]*[A-Za-z]", "", text)
    return [re.sub(r"(DUMPFILE:) \S+( +\[PARTIAL DUMP\])?", r"\1", line).rstrip() for line in text.splitlines()]


@dataclass
class Answers:
    """The output of one crash: before its prompt, and for each command."""

    start_up: list[str]
    commands: dict[str, list[str]]

    @property
    def opened(self) -> bool:
        return any(self.commands.get("sys", []))


def run(
    vmlinux: str, dumps: list[str], commands: tuple[str, ...], program: tuple[str, ...] = INSTALLED
) -> list[Answers]:
    """Runs the commands on all dumps concurrently."""
    if not shutil.which(program[0]):
        raise CannotJudge(f"{program[0]} is not installed")
    with tempfile.TemporaryDirectory(prefix="crash-text-") as temporary:
        directories = [Path(temporary) / str(n) for n in range(len(dumps))]
        for directory in directories:
            directory.mkdir()
        processes = [
            start(program, vmlinux, dump, directory, commands)
            for dump, directory in zip(dumps, directories)
        ]
        try:
            texts = [process.communicate(timeout=SECONDS)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
        return [
            Answers(clean(text), read_answers(directory, commands))
            for text, directory in zip(texts, directories)
        ]


def read_answers(directory: Path, commands: tuple[str, ...]) -> dict[str, list[str]]:
    """Reads the files to which crash's commands were written."""
    return {
        command: clean((directory / str(n)).read_text(errors="replace"))
        for n, command in enumerate(commands)
        if (directory / str(n)).exists()
    }


def judge(
    vmlinux: str, a: str, b: str, commands: tuple[str, ...] = COMMANDS, program: tuple[str, ...] = INSTALLED
) -> Verdict:
    """Compares the texts of crash, which `program` runs, command by command."""
    return compare_answers((a, b), *run(vmlinux, [a, b], commands, program), commands)


def compare_answers(
    dumps: tuple[str, str], ours: Answers, theirs: Answers, commands: tuple[str, ...] = COMMANDS
) -> Verdict:
    """Compares the collected outputs of crash for both dumps."""
    a, b = dumps
    verdict = Verdict(f"crash on {Path(a).name} and {Path(b).name}")
    if not ours.opened and not theirs.opened:
        output = " / ".join(filter(None, ours.start_up))[:200]
        raise CannotJudge(f"crash opens neither dump: {output or 'no output'}")
    for dump, answers in ((a, ours), (b, theirs)):
        if not answers.opened:
            output = " / ".join(filter(None, answers.start_up))[:200]
            verdict.differ(f"crash opens only the other dump, not {Path(dump).name}: {output}")
            return verdict
    compare("start-up", ours.start_up, theirs.start_up, verdict)
    for command in commands:
        answers = [text.commands.get(command, []) for text in (ours, theirs)]
        verdict.require(any(answers[0]), f"{command}: no output")
        compare(command, *answers, verdict)
    return verdict


def compare(command: str, a: list[str], b: list[str], verdict: Verdict) -> None:
    """Compares one command's lines, in order."""
    for number, (ours, theirs) in enumerate(zip(a, b), 1):
        if ours == theirs:
            verdict.count("lines equal")
        else:
            verdict.differ(f"{command}, line {number}: A {ours!r}, B {theirs!r}")
    if len(a) != len(b):
        verdict.differ(f"{command}: {len(a)} lines in A, {len(b)} in B")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vmlinux", help="with debug symbols, of the dump's kernel")
    parser.add_argument("a")
    parser.add_argument("b")
    arguments = parser.parse_args()
    try:
        return judge(arguments.vmlinux, arguments.a, arguments.b).finish()
    except CannotJudge as error:
        return error.finish()


if __name__ == "__main__":
    sys.exit(main())
