"""The rules that every run must satisfy, whatever the dump."""

import re
from pathlib import Path

from . import limited
from .commands import Call

# Control characters, except tab and newline, in the text that a terminal would obey.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _left(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*"))


def _files(call: Call, ran: limited.Ran, directory: Path, size: int) -> list[str]:
    """Checks the files of a run's directory: only the outputs that were named, and not too large."""
    found = []
    allowed = call.leaves or r"(?!)"
    if call.keeps and ran.status != 0:
        allowed = rf"({allowed})(\.incomplete)?"
    written = 0
    for path in _left(directory):
        name = str(path.relative_to(directory))
        written += path.lstat().st_blocks * 512
        if not re.fullmatch(allowed, name):
            found.append(f"a file is left: {name}")
    if written > limited.output(size):
        found.append(f"{written >> 20} MiB written, allowed are {limited.output(size) >> 20}")
    return found


def _texts(call: Call, ran: limited.Ran) -> list[str]:
    found = []
    streams = {"standard error": ran.stderr}
    if call.is_text:
        streams["standard output"] = ran.stdout
    for name, stream in streams.items():
        control = set(CONTROL.findall(stream.decode(errors="replace"))) - set(call.control)
        if control:
            found.append(f"control characters {sorted(control)} on {name}")
    return found


def run_is_good(call: Call, ran: limited.Ran, directory: Path, size: int) -> list[str]:
    """Returns the rules that a run of a command violates; `size` is that of its input in bytes."""
    found = []
    if ran.hung:
        found.append(f"sleeps for {limited.LOOKS * limited.LOOK_SECONDS:.0f} s without an end")
    elif ran.seconds > limited.cpu_seconds(size):
        found.append(f"{ran.seconds:.1f} s of processor time, allowed are {limited.cpu_seconds(size):.1f}")
    elif ran.status not in call.statuses:
        found.append(f"ended with {ran.ended}")
    if b"panicked" in ran.stderr:
        found.append("panicked")
    if ran.status == 1 and not ran.stderr and not ran.stdout:
        found.append("exit status 1 without a message")
    if ran.memory > limited.memory(size):
        found.append(f"{ran.memory >> 20} MiB of memory, allowed are {limited.memory(size) >> 20}")
    if ran.printed > limited.output(size):
        found.append(f"{ran.printed >> 20} MiB printed, allowed are {limited.output(size) >> 20}")
    return found + _texts(call, ran) + _files(call, ran, directory, size)
