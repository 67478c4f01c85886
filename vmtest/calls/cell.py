"""One run of a program with its own namespaces, directories and time limit: runs do not affect each other, and nothing
is left behind."""

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, Unavailable

NOBODY = 65534
# Maximum output; the rest is cut, so that a program that writes without end does not fill the memory.
OUTPUT_AT_MOST = 4 << 20

# /mnt becomes /tmp after the copy, since the library to preload may itself be in /tmp. The shell stays, because signals
# do not end the first process of a PID namespace; when the shell ends, all other processes in the namespace end.
_SCRIPT = """
mount -t tmpfs -o mode=1777 cell /mnt
while [ $# -gt 0 ]; do cp "$1" "/mnt/$2"; shift 2; done
mount --move /mnt /tmp
mount -t tmpfs -o mode=1777 cell /dev/shm
cd /tmp
ulimit -c 0
status=0
{command} </dev/null 2>&1 || status=$?
if [ -e .trace ]; then cat .trace >&2; fi
exit $status
"""
# Directory for a program's trace, which is kept.
TRACE = "/tmp/.trace"


@dataclass(frozen=True)
class Run:
    """Result of a run: exit status as in a shell (128 + signal), or None after a timeout."""

    status: int | None
    output: bytes
    trace: bytes = b""

    @property
    def ended(self) -> str:
        """Returns the status in words."""
        if self.status is None:
            return "no end within the time limit"
        if self.status > 128:
            try:
                return f"killed by {signal.Signals(self.status - 128).name}"
            except ValueError:
                pass
        return f"exit status {self.status}"


class Cell:
    """Isolates processes on this machine."""

    def __init__(self) -> None:
        kept_apart = ["--ipc", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
        self.is_root = os.geteuid() == 0
        self._before = ["unshare", *([] if self.is_root else ["--user", "--map-root-user"]), *kept_apart]
        try:
            probe = subprocess.run([*self._before, "true"], capture_output=True, text=True)
            said = probe.stderr.strip() if probe.returncode else ""
        except FileNotFoundError as error:
            said = str(error)
        if said:
            raise Unavailable(f"programs cannot be kept apart here, which takes namespaces: {said}")

    def run(
        self,
        command: Sequence[str],
        files: Mapping[str, Path],
        environment: Mapping[str, str],
        *,
        as_root: bool,
        seconds: float,
        traced: bool = False,
    ) -> Run:
        """Runs a command in /tmp, a directory with copies of `files` under the given names, as the user nobody or as
        root. With `traced`, the result includes the contents of TRACE."""
        variables = [f"{key}={value}" for key, value in environment.items()]
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
        copied = [word for name, path in files.items() for word in (str(path), name)]
        whole = [*(user if self.is_root and not as_root else []), "env", *variables, *command]
        clean = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp", "LC_ALL": "C", "LANGUAGE": "C",
                 "TIMEOUTFACTOR": "5"}  # fmt: skip
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as trace:
            script = _SCRIPT.format(command=shlex.join(whole))
            process = subprocess.Popen(
                [*self._before, "sh", "-ec", script, "cell", *copied],
                stdin=subprocess.DEVNULL, stdout=output, stderr=trace, env=clean,
            )  # fmt: skip
            try:
                status: int | None = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = None
            output.seek(0)
            trace.seek(0)
            run = Run(status, output.read(OUTPUT_AT_MOST), trace.read(OUTPUT_AT_MOST))
        if run.trace and not traced:
            raise LabError(f"a cell cannot be made for {command[0]}: {run.trace.decode(errors='replace').strip()}")
        return run
