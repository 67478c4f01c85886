"""PostgreSQL with System V shared memory: from its start to a query at full speed, and its stop."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

from real.case import (
    GIB,
    CannotRun,
    Case,
    Failed,
    Phases,
    connect,
    first_line,
    kibibytes,
    shared_memory,
    until_given_back,
    wait_for_process,
    wait_until,
)

# By huge_pages: System V memory supports only small pages (PostgreSQL's documentation of huge_pages).
MEMORY = {"off": "sysv", "on": "mmap"}
# The contents of postgresql.conf besides the size: the kind of memory; no network; queries in one process, so that all
# runs do the same; no log for data loaded in one transaction, which only makes the load faster.
SETTINGS = """
shared_memory_type = {memory}
listen_addresses = ''
unix_socket_directories = '{directory}'
shared_buffers = {buffers}MB
huge_pages = {huge}
autovacuum = off
jit = off
max_parallel_workers_per_gather = 0
wal_level = minimal
max_wal_senders = 0
max_wal_size = 8GB
"""
# Four rows per page. They are frozen when they are loaded, so that no later query writes.
ROW = 1990
TABLE = """
begin; create table big (number int, text text);
alter table big alter text set storage plain;
copy big from program 'yes "1|{text}" | head -n {rows}' with (freeze, delimiter '|'); commit
"""
LOAD = "select pg_prewarm('big', 'buffer')"
QUERY = "select sum(number) from big"


class Connection:
    """A connection by version 3 of PostgreSQL's protocol, limited to queries without parameters."""

    def __init__(self, one: socket.socket, user: str) -> None:
        """Logs in; raises OSError if the server is not yet ready."""
        self.socket = one
        words = b"".join(word.encode() + b"\0" for word in ("user", user, "database", "postgres", ""))
        self.socket.sendall(struct.pack("!II", len(words) + 8, 196608) + words)
        self.rows()

    def take(self, size: int) -> bytes:
        """Reads the next `size` bytes."""
        got = b""
        while len(got) < size:
            part = self.socket.recv(size - len(got))
            if not part:
                raise ConnectionError("the server closed the connection")
            got += part
        return got

    def rows(self) -> list[bytes]:
        """Returns all rows, up to the message that the server is ready for the next query."""
        rows = []
        while True:
            kind, size = struct.unpack("!cI", self.take(5))
            body = self.take(size - 4)
            if kind == b"E":
                raise ConnectionError(body.replace(b"\0", b" ").decode(errors="replace"))
            if kind == b"D":
                rows.append(body)
            if kind == b"Z":
                return rows

    def query(self, text: str) -> list[bytes]:
        """Runs a query."""
        words = text.encode() + b"\0"
        self.socket.sendall(struct.pack("!cI", b"Q", len(words) + 4) + words)
        return self.rows()

    def close(self) -> None:
        """Terminates the connection."""
        with contextlib.suppress(OSError):
            self.socket.sendall(struct.pack("!cI", b"X", 4))
        self.socket.close()


def programs() -> Path:
    """Returns the directory of Debian's newest PostgreSQL, or of the one in PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    for directory in os.get_exec_path():
        if (Path(directory) / "initdb").exists():
            return Path(directory)
    raise CannotRun("PostgreSQL is not installed: apt-get install postgresql")


class Cluster:
    """A temporary cluster with one table, shared by all rows of PostgreSQL."""

    def __init__(self, work: Path, buffers: int, table: int) -> None:
        """Plans a cluster in a directory, with buffers and a table of these sizes in bytes."""
        self.directory = work / "postgres"
        self.data = self.directory / "data"
        self.buffers = buffers
        self.table = table
        self.made = False
        self.user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name

    def start(self, *command: str | Path) -> subprocess.Popen[bytes]:
        """Starts one of PostgreSQL's programs as the owner of the cluster."""
        who = pwd.getpwnam(self.user)
        how = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        return subprocess.Popen(
            [str(word) for word in command], cwd=self.directory, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **how,  # type: ignore[arg-type]
        )  # fmt: skip

    def do(self, *command: str | Path) -> str:
        """Runs a program to its end, and returns its output."""
        begun = self.start(*command)
        said = begun.communicate()[0].decode(errors="replace")
        if begun.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))}: {said.strip()[-500:]}")
        return said

    def configure(self, huge: str) -> None:
        """Writes the settings for the next start."""
        text = SETTINGS.format(directory=self.directory, buffers=self.buffers >> 20, memory=MEMORY[huge], huge=huge)
        (self.data / "postgresql.auto.conf").write_text(text)

    def log_in(self) -> Connection | None:
        """Returns a connection; None if the server does not accept one."""
        one = connect(self.directory / ".s.PGSQL.5432")
        if one is None:
            return None
        try:
            return Connection(one, self.user)
        except OSError:
            one.close()
            return None

    def open(self, begun: subprocess.Popen[bytes]) -> Connection:
        """Waits for the first connection that the server accepts."""
        found: list[Connection] = []

        def try_it() -> bool:
            one = self.log_in()
            found.extend([one] if one else [])
            return bool(found)

        wait_until("PostgreSQL accepts connections", try_it, lambda: begun.poll() in (None, 0))
        return found[0]

    def process(self) -> int:
        """Returns the process id of the running server; 0 if it does not run."""
        try:
            return int((self.data / "postmaster.pid").read_text().split("\n")[0])
        except (OSError, ValueError):
            return 0

    def make(self) -> None:
        """Creates the cluster and its table."""
        if self.made:
            return
        bin_directory = programs()
        try:
            who = pwd.getpwnam(self.user)
        except KeyError:
            raise CannotRun("there is no user postgres") from None
        self.directory.mkdir()
        os.chown(self.directory, who.pw_uid, who.pw_gid)
        self.do(bin_directory / "initdb", "-D", self.data, "-A", "trust", "--no-sync", "--no-locale")
        self.configure("off")
        how = ("-D", self.data, "-l", self.directory / "log", "-o", "-c fsync=off", "-W", "start")
        begun = self.start(bin_directory / "pg_ctl", *how)
        try:
            connection = self.open(begun)
            begun.communicate()
            for text in TABLE.format(text="x" * ROW, rows=self.table // (8192 // 4)).split(";"):
                connection.query(text)
            for text in ("create extension pg_prewarm", "checkpoint"):
                connection.query(text)
            connection.close()
            self.do(bin_directory / "pg_ctl", "-D", self.data, "-m", "fast", "stop")
        except OSError as why:
            raise Failed(f"PostgreSQL: {why}") from None
        finally:
            self.end()
        self.made = True

    def end(self) -> None:
        """Kills a server left by a failed run, and waits for its end."""
        process = self.process()
        if process:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGQUIT)
                descriptor = os.pidfd_open(process)
                wait_for_process(descriptor)
                os.close(descriptor)


class Postgres(Case):
    """A start, queries, and a stop."""

    total = "to full speed"
    shared = True

    def __init__(self, cluster: Cluster, huge: str) -> None:
        """Selects a cluster and a value of huge_pages."""
        self.cluster = cluster
        self.huge = huge
        self.name = f"PostgreSQL, {cluster.buffers / GIB:g} GiB of buffers, {MEMORY[huge]}, huge_pages = {huge}"
        self.memory = cluster.buffers + cluster.table
        self.command = ["pg_ctl", "-D", "DATA", "-l", "LOG", "-W", "start"]

    def prepare(self) -> None:
        """Creates the cluster; checks that there are enough huge pages."""
        if self.huge == "on":
            text = Path("/proc/meminfo").read_text()
            found = re.search(r"HugePages_Free: +(\d+)", text)
            free = (int(found[1]) if found else 0) * kibibytes("Hugepagesize")
            if free < self.cluster.buffers * 11 // 10:
                raise CannotRun(f"only {free >> 20} MiB of huge pages are free (nr_hugepages)")
        self.cluster.make()

    def run(self, prefix: list[str]) -> Phases:
        """Measures start, first connection, loading the table into the buffers, two equal queries, and stop."""
        cluster, control = self.cluster, str(programs() / "pg_ctl")
        cluster.configure(self.huge)
        before = shared_memory()
        begin = time.monotonic()
        log = cluster.directory / "log"
        begun = cluster.start(*prefix, control, "-D", cluster.data, "-l", log, "-W", "-s", "start")
        try:
            connection = cluster.open(begun)
            times = [begin, time.monotonic()]
            begun.communicate()
            for text in (LOAD, QUERY, QUERY):
                if len(connection.query(text)) != 1:
                    raise Failed(f"{text}: expected one row")
                times.append(time.monotonic())
            connection.close()
            descriptor = os.pidfd_open(cluster.process())
            stop = time.monotonic()
            stopper = cluster.start(control, "-D", cluster.data, "-m", "fast", "-W", "-s", "stop")
            wait_for_process(descriptor)
            stopped = time.monotonic()
            os.close(descriptor)
            stopper.communicate()
            until_given_back(before)
        except (Failed, OSError) as why:
            raise Failed(f"{why}; log: {log.read_text(errors='replace').strip()[-300:]}") from None
        finally:
            cluster.end()
        _, ready, loaded, first, second = times
        return {
            "ready": ready - begin,
            "table into buffers": loaded - ready,
            "first query": first - loaded,
            "to full speed": first - begin,
            "second query": second - first,
            "stop": stopped - stop,
            "memory is back": time.monotonic() - stop,
        }

    def version(self) -> str:
        """Returns the version of the server."""
        return first_line(str(programs() / "postgres"), "--version")
