"""Runs a program in its own namespaces and directories and with a time limit: runs do not affect each other, and leave
nothing behind."""

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
# Maximum bytes of output; the rest is discarded, so that endless output does not fill the memory.
OUTPUT_AT_MOST = 4 << 20

# /mnt becomes /tmp only after the copies, since the library to preload may itself be in /tmp. The shell stays the first
# process of the PID namespace, because signals do not end that process; when the shell ends, all other processes in the
# namespace end.
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
# Directory for the trace of a program, which the result includes.
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
    """Isolates processes."""

    def __init__(self) -> None:
        kept_apart = ["--ipc", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
        self.is_root = os.geteuid() == 0
        self._before = ["unshare", *([] if self.is_root else ["--user", "--map-root-user"]), *kept_apart]
        try:
            probe = subprocess.run([*self._before, "true"], capture_output=True, text=True)
            reason = probe.stderr.strip() if probe.returncode else ""
        except FileNotFoundError as error:
            reason = str(error)
        if reason:
            raise Unavailable(f"programs cannot be isolated on this machine, which requires namespaces: {reason}")

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
        """Runs a command as the user nobody or as root in /tmp, a directory with copies of `files` under the given
        names. With `traced`, the result includes the contents of TRACE."""
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
