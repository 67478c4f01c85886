"""Runs a program within limits of processor time, memory and output, and measures it."""

import os
import resource
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
# Processor time, which does not depend on the machine's load: a run of these dumps takes 0.01 to 0.5 s.
CPU_SECONDS, CPU_SECONDS_PER_MIB = 6.0, 0.5
# Most is what the caches and buffers may take; chunks, bitmaps and the index grow with the file.
MEMORY, MEMORY_PER_BYTE = 320 * MIB, 2
# Bytes that a run may print or write, as allocated: an expanded core has holes.
OUTPUT, OUTPUT_PER_BYTE = 64 * MIB, 16
# A run counts as hung if all its threads sleep for so many looks, five seconds apart. A process that waits for a
# processor, or that somebody stopped, does not sleep: the machine's load has no influence.
LOOKS, LOOK_SECONDS = 24, 5.0
# Protects the machine, far above what is allowed.
ADDRESS_SPACE, FILE_SIZE = 4 << 30, 2 << 30


@dataclass(frozen=True)
class Ran:
    """Result of a run. `status` is negative for a signal."""

    words: Sequence[str]
    status: int
    hung: bool
    seconds: float  # of processor time
    memory: int  # peak, in bytes
    stdout: bytes
    stderr: bytes
    printed: int  # bytes on standard output; `stdout` has the first MiB

    @property
    def ended(self) -> str:
        """Returns the status in words."""
        return signal.Signals(-self.status).name if self.status < 0 else f"exit status {self.status}"


def cpu_seconds(size: int) -> float:
    """Returns the processor time allowed for dumps of `size` bytes together."""
    return CPU_SECONDS + CPU_SECONDS_PER_MIB * size / MIB


def memory(size: int) -> int:
    """Returns the peak memory allowed for dumps of `size` bytes together."""
    return MEMORY + MEMORY_PER_BYTE * size


def output(size: int) -> int:
    """Returns the bytes of output allowed for dumps of `size` bytes together."""
    return OUTPUT + OUTPUT_PER_BYTE * size


def _sleeps(pid: int) -> str | None:
    """Returns the processor time of a process as text if all its threads sleep; None if any does not."""
    states = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            states.append((task.name, fields[0], *fields[11:13]))
    except OSError:
        return None
    return str(sorted(states)) if states and all(state[1] == "S" for state in states) else None


def _end_if_hung(pid: int, over: threading.Event, hung: threading.Event) -> None:
    """Kills a process that sleeps for ever."""
    last, looks = None, 0
    while not over.wait(LOOK_SECONDS):
        now = _sleeps(pid)
        looks = looks + 1 if now is not None and now == last else 0
        last = now
        if looks >= LOOKS:
            hung.set()
            os.kill(pid, signal.SIGKILL)
            return


def _limit(seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(words: Sequence[str | Path], directory: Path, size: int) -> Ran:
    """Runs a program in a directory to its end; `size` is that of its input."""
    command = [str(word) for word in words]
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8", "TMPDIR": str(directory), "RUST_BACKTRACE": "0"}
    most = int(cpu_seconds(size)) + 1
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=directory, env=environment,
            preexec_fn=lambda: _limit(most),
        )  # fmt: skip
        over, hung = threading.Event(), threading.Event()
        watch = threading.Thread(target=_end_if_hung, args=(process.pid, over, hung), daemon=True)
        watch.start()
        # Left unreaped until nobody sends it a signal any more.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        over.set()
        watch.join()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for stream in (stdout, stderr):
            stream.seek(0)
            texts.append(stream.read(MIB))
        printed = os.fstat(stdout.fileno()).st_size
    seconds = usage.ru_utime + usage.ru_stime
    return Ran(command, process.returncode, hung.is_set(), seconds, usage.ru_maxrss << 10, *texts, printed)
