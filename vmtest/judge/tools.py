"""Runs makedumpfile and bigiron, one call for each operation."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict import CannotJudge

SECONDS = 900


class ToolFailed(Exception):
    """A program ended with an error; the message is the end of its output."""


def run(command: list[str], stdin: Path | None = None, stdout: Path | None = None) -> None:
    """Runs a program with its standard streams connected to the given files."""
    source = open(stdin, "rb") if stdin else subprocess.DEVNULL
    target = open(stdout, "wb") if stdout else subprocess.PIPE
    try:
        ended = subprocess.run(
            command, stdin=source, stdout=target, stderr=subprocess.PIPE, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{' '.join(command)}: no end within {SECONDS} s") from None
    finally:
        for stream in (source, target):
            if not isinstance(stream, int):
                stream.close()
    if ended.returncode != 0:
        text = ended.stderr + (ended.stdout or b"")
        lines = text.decode(errors="replace").strip().splitlines()[-3:]
        raise ToolFailed(f"{' '.join(command)}: exit {ended.returncode}: {' / '.join(lines)}")


class Makedumpfile:
    """The installed makedumpfile, or the one that `command` runs."""

    def __init__(self, *command: str | Path) -> None:
        found = command or (shutil.which("makedumpfile"),)
        if None in found:
            raise CannotJudge("makedumpfile is not installed")
        self.command = [str(word) for word in found]
        text = subprocess.run([*self.command, "-v"], capture_output=True, text=True).stdout
        self.version = text.split(":", 1)[1].split("(")[0].strip()
        built = {line.split()[0] for line in text.splitlines() if line.endswith("enabled")}
        flags = {"none": None, "zlib": "-c", "lzo": "-l", "snappy": "-p", "zstd": "-z"}
        self.codecs = {
            codec: [flag] if flag else []
            for codec, flag in flags.items()
            if codec in ("none", "zlib") or codec in built
        }

    @property
    def cheapest(self) -> str:
        """Returns the fastest codec, for dumps that are only inspected."""
        return "lzo" if "lzo" in self.codecs else "none"

    def dump(self, source: Path, target: Path, level: int, codec: str | None = None) -> Path:
        """Makes a kdump-compressed file."""
        flags = self.codecs[codec or self.cheapest]
        run([*self.command, *flags, "-d", str(level), str(source), str(target)])
        return target

    def elf(self, source: Path, target: Path, level: int) -> Path:
        run([*self.command, "-E", "-d", str(level), str(source), str(target)])
        return target

    def flatten(self, source: Path, target: Path, level: int) -> Path:
        """Makes a flattened file, as written to a pipe."""
        flags = self.codecs[self.cheapest]
        run([*self.command, "-F", *flags, "-d", str(level), str(source)], stdout=target)
        return target

    def rearrange(self, flattened: Path, target: Path) -> Path:
        """Converts a flattened file to a plain one."""
        run([*self.command, "-R", str(target)], stdin=flattened)
        return target

    def log(self, dump: Path, target: Path) -> str:
        """Returns the kernel's log in a dump."""
        run([*self.command, "--dump-dmesg", "-f", str(dump), str(target)])
        return target.read_text(errors="replace")

    def split(self, source: Path, targets: list[Path], level: int) -> list[Path]:
        """Splits one dump into several files."""
        flags = self.codecs[self.cheapest]
        names = [str(target) for target in targets]
        run([*self.command, "--split", *flags, "-d", str(level), str(source), *names])
        return targets


@dataclass(frozen=True)
class Bigiron:
    """The program under test."""

    program: Path
    helpers: int = 2

    def dump(
        self,
        source: Path | str | list[Path],
        target: Path | str,
        level: int,
        codec: str = "none",
        *,
        form: str = "kdump",
        io: str = "mmap",
        helpers: int | None = None,
        write_limit: str | None = None,
        stdin: Path | None = None,
        stdout: Path | None = None,
    ) -> None:
        """Makes a dump; the parts of a split source are given as a list."""
        sources = source if isinstance(source, list) else [source]
        command = [str(self.program), "dump", *map(str, sources), str(target)]
        command += ["-d", str(level), "-c", codec, "-f", form]
        command += ["-j", str(helpers or self.helpers), "--io", io]
        if write_limit:
            command += ["--write-limit", write_limit]
        run([*command, "--overwrite", "--quiet"], stdin=stdin, stdout=stdout)

    def log(self, dump: Path, *options: str) -> bytes:
        """Returns the kernel's log in a dump, as `bigiron dmesg` prints it."""
        command = [str(self.program), "dmesg", *options, str(dump)]
        ended = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
        if ended.returncode != 0 or ended.stderr:
            output = ended.stderr.decode(errors="replace").strip()
            raise ToolFailed(f"{' '.join(command)}: exit {ended.returncode}: {output}")
        return ended.stdout

    def info(self, dump: Path | str, *options: str) -> dict[str, Any]:
        """Returns the machine-readable output of `bigiron info` for a dump."""
        return json.loads(self._output("info", "--json", *options, str(dump)))

    def dump_summary(self, source: Path, level: int) -> dict[str, Any]:
        """Returns the summary of a dump at a level; the dump is not stored."""
        return json.loads(self._output("dump", "--json", "--overwrite", "-d", str(level), "-c", "none", str(source), "/dev/null"))

    def named(self, command: str, dump: Path, names: Iterable[str]) -> list[dict[str, Any]]:
        """Returns the machine-readable output of `bigiron sym` or `bigiron type` for names."""
        wanted = list(names)
        if not wanted:
            return []
        return [json.loads(line) for line in self._output(command, "--json", str(dump), *wanted).splitlines()]

    def json(self, *arguments: str) -> Any:
        """Returns the machine-readable output of any command."""
        return json.loads(self._output(*arguments))

    def text(self, *arguments: str) -> str:
        """Returns the output of any command."""
        return self._output(*arguments).decode(errors="replace")

    def _output(self, *arguments: str) -> bytes:
        command = [str(self.program), *arguments]
        ended = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
        if ended.returncode != 0:
            raise ToolFailed(f"{' '.join(command)}: {ended.stderr.decode(errors='replace').strip()}")
        return ended.stdout

    def verify(self, dump: Path | str) -> int:
        """Returns the exit status of `bigiron verify`: 0 if every page is present and correct."""
        return self.verify_report(dump)[0]

    def verify_report(self, dump: Path | str) -> tuple[int, dict[str, Any]]:
        """Returns the same, and the machine-readable report."""
        command = [str(self.program), "verify", "--json", str(dump)]
        ended = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
        try:
            return ended.returncode, json.loads(ended.stdout)
        except json.JSONDecodeError:
            return ended.returncode, {}
