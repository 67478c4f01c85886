"""Programs of a suite: sources, arguments, and builds."""

import hashlib
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from . import store

# Number of concurrent builds: leaves the machine usable for other work.
JOBS = 2
COMPILING_TAKES_AT_MOST = 120
# Headers in these folders are included in the cache key; those of unpacked sources do not change.
_OURS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Program:
    """A program to build from one C file, or one that is installed (`installed`)."""

    suite: str
    name: str
    source: Path | None = None
    flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    installed: str | None = None
    arguments: tuple[str, ...] = ()
    # reason not to run the program, if known in advance
    left_out: str | None = None
    as_root: bool = False
    # True if the program prints numbers that always vary, such as times or sizes that include the loaded libraries.
    numbers_vary: bool = False


@dataclass(frozen=True)
class Built:
    """A program that can be run, or the reason why it cannot."""

    program: Program
    path: Path | None
    why_not: str = ""


def _digest(program: Program, salt: str) -> str:
    assert program.source is not None
    hashed = hashlib.sha256(salt.encode())
    hashed.update(program.source.read_bytes())
    ours = [Path(flag[2:]) for flag in program.flags if flag.startswith("-I") and flag[2:].startswith(str(_OURS))]
    for folder in (program.source.parent, *ours):
        for header in sorted(folder.glob("*.h")):
            hashed.update(header.name.encode() + header.read_bytes())
    hashed.update("\0".join((str(program.source), *program.flags, *program.libraries)).encode())
    for library in program.libraries:
        if library.endswith(".a"):
            hashed.update(Path(library).read_bytes())
    return hashed.hexdigest()[:24]


def _reason(output: str) -> str:
    """Returns the line of the compiler's output that states the reason."""
    lines = [line for line in output.splitlines() if "error:" in line or "undefined reference" in line]
    if not lines:
        return (output.strip().splitlines() or ["the compiler failed without a message"])[-1]
    line = lines[0]
    for mark in ("fatal error: ", "error: "):
        if mark in line:
            return line.split(mark, 1)[1]
    return "undefined reference" + line.split("undefined reference", 1)[1]


def build(program: Program, salt: str) -> Built:
    """Compiles a program or takes it from the cache, which also contains failures."""
    if program.left_out:
        return Built(program, None, program.left_out)
    if program.installed:
        found = shutil.which(program.installed)
        return Built(program, Path(found) if found else None, "" if found else f"{program.installed} is not installed")
    assert program.source is not None
    users = "/root" if program.as_root else ""
    directory = store.root() / "built" / f"{program.suite.split(' ')[0]}{users}" / program.name
    directory.mkdir(parents=True, exist_ok=True)
    digest = _digest(program, salt)
    made, failed = directory / digest, directory / f"{digest}.failed"
    if made.exists():
        return Built(program, made)
    if failed.exists():
        return Built(program, None, failed.read_text())
    partial = directory / f".{digest}.{os.getpid()}"
    command = ["gcc", *program.flags, str(program.source), *program.libraries, "-o", str(partial)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=program.source.parent,
                              timeout=COMPILING_TAKES_AT_MOST)
        status, output = done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        status, output = 1, f"error: compiling takes longer than {COMPILING_TAKES_AT_MOST} s"
    for older in [path for path in directory.iterdir() if path.is_file() and path != partial]:
        older.unlink()
    if status == 0:
        partial.rename(made)
        return Built(program, made)
    partial.unlink(missing_ok=True)
    why = f"cannot be built: {_reason(output)}"
    failed.write_text(why)
    return Built(program, None, why)


def build_all(programs: Iterable[Program]) -> list[Built]:
    """Builds programs concurrently, and returns them in order."""
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    with ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(lambda program: build(program, compiler), programs))
