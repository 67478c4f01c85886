"""QEMU, the JVM, memcached, Redis and bench/real/model.c: start, readiness, end."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from pathlib import Path

from real.case import (
    CannotRun,
    Case,
    Failed,
    Phases,
    ask,
    child,
    connect,
    ended,
    first_line,
    need,
    read_until,
    remove_segments,
    shared_memory,
    until_given_back,
    wait_until,
)

HERE = Path(__file__).resolve().parent


def gigabytes(size: int) -> str:
    """Formats a size for a name."""
    return f"{size / (1 << 30):.3g} GiB"


class Qemu(Case):
    """A stopped virtual machine that has only preallocated memory. `quit` in its monitor ends it."""

    def __init__(self, work: Path, kind: str, threads: int | None, size: int) -> None:
        """Selects the kind of memory backend, and its number of threads or QEMU's default."""
        self.work = work
        self.shared = kind == "memfd"
        self.memory = size
        backend = f"memory-backend-{kind},id=ram,size={size},prealloc=on"
        backend += f",prealloc-threads={threads}" if threads else ""
        self.name = f"QEMU, {gigabytes(size)}, {kind}, prealloc-threads {threads or 'unset'}"
        self.command = [
            "qemu-system-x86_64", "-accel", "tcg", "-machine", "none", "-S", "-display", "none", "-nodefaults",
            "-object", backend, "-monitor", "stdio",
        ]  # fmt: skip

    def prepare(self) -> None:
        """Requires QEMU."""
        need("qemu-system-x86_64", "qemu-system-x86")

    def run(self, prefix: list[str]) -> Phases:
        """Measures the time to the monitor's prompt, and from `quit` to the end."""
        before = shared_memory()
        begin = time.monotonic()
        with child(prefix + self.command, self.work / "said", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as begun:
            read_until(begun.stdout, b"(qemu)")
            ready = time.monotonic()
            begun.stdin.write(b"quit\n")
            begun.stdin.flush()
            ended(begun)
            end = time.monotonic()
        until_given_back(before)
        return {
            "ready": ready - begin,
            "exit": end - ready,
            "all": end - begin,
            "memory is back": time.monotonic() - ready,
        }

    def version(self) -> str:
        """Returns the version of QEMU."""
        return first_line("qemu-system-x86_64", "--version")


class Java(Case):
    """A JVM that touches its heap at the start, and then prints its version."""

    def __init__(self, work: Path, size: int, *options: str) -> None:
        """Selects the heap size in bytes, and options."""
        self.work = work
        self.memory = size
        heap = f"{size >> 20}m"
        self.name = f"JVM, {gigabytes(size)} AlwaysPreTouch" + "".join(f", {option[5:]}" for option in options)
        self.command = ["java", "-XX:+AlwaysPreTouch", f"-Xms{heap}", f"-Xmx{heap}", *options, "--version"]

    def prepare(self) -> None:
        """Requires a JVM."""
        need("java", "openjdk-17-jre-headless")

    def run(self, prefix: list[str]) -> Phases:
        """Measures the time to the printed line, and from there to the end."""
        begin = time.monotonic()
        with child(prefix + self.command, self.work / "said", stdout=subprocess.PIPE) as begun:
            read_until(begun.stdout, b"mode")
            ready = time.monotonic()
            ended(begun)
            end = time.monotonic()
        return {"ready": ready - begin, "exit": end - ready, "all": end - begin}

    def version(self) -> str:
        """Returns the version of the JVM."""
        return first_line("java", "--version")


def need_locking(size: int) -> None:
    """Raises CannotRun if this user may not lock `size` bytes."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if os.geteuid() != 0 and limit != resource.RLIM_INFINITY and limit < size:
        raise CannotRun(f"the limit of locked memory is {limit >> 10} KiB (ulimit -l), and this user is not root")


class Memcached(Case):
    """memcached with all its memory allocated and locked at the start."""

    def __init__(self, work: Path, size: int) -> None:
        """Selects the memory size in bytes."""
        self.work = work
        self.memory = size
        self.socket = work / "memcached"
        self.name = f"memcached -k -L, {gigabytes(size)}"
        self.command = ["memcached", "-k", "-L", "-m", str(size >> 20), "-s", str(self.socket)]
        self.command += ["-u", "root"] if os.geteuid() == 0 else []

    def prepare(self) -> None:
        """Requires the program and a sufficient limit."""
        need("memcached", "memcached")
        need_locking(self.memory)

    def run(self, prefix: list[str]) -> Phases:
        """Measures the time to the first answer, and from SIGTERM to the end."""
        self.socket.unlink(missing_ok=True)
        begin = time.monotonic()
        with child(prefix + self.command, self.work / "said") as begun:
            wait_until("memcached answers", lambda: ask(self.socket, b"version") != b"", lambda: begun.poll() is None)
            ready = time.monotonic()
            begun.terminate()
            # It checks for the signal on input, or once a second.
            one = connect(self.socket)
            ended(begun)
            end = time.monotonic()
            if one is not None:
                one.close()
        return {"ready": ready - begin, "stop": end - ready, "all": end - begin}

    def version(self) -> str:
        """Returns the version of memcached."""
        return first_line("memcached", "--version")


class Redis(Case):
    """Redis with data that it loads at its start."""

    def __init__(self, work: Path, size: int) -> None:
        """Selects the approximate size of the data in bytes."""
        self.work = work
        self.memory = size * 5 // 2
        self.size = size
        self.socket = work / "redis"
        self.name = f"Redis, {gigabytes(size)} loaded from its file"
        self.command = [
            "redis-server", "--port", "0", "--unixsocket", str(self.socket), "--dir", str(work), "--save", "",
            "--rdbcompression", "no", "--enable-debug-command", "yes",
        ]  # fmt: skip

    def served(self, begun: subprocess.Popen[bytes]) -> None:
        """Waits for the first answer to PING that is not an error."""
        wait_until("Redis answers", lambda: ask(self.socket, b"PING") == b"+PONG\r\n", lambda: begun.poll() is None)

    def prepare(self) -> None:
        """Creates and saves the data, values of 1000 bytes."""
        need("redis-server", "redis-server")
        with child(self.command, self.work / "said", stdout=subprocess.DEVNULL) as begun:
            self.served(begun)
            for words in (f"DEBUG POPULATE {self.size // 1024} key 1000", "SAVE"):
                if not ask(self.socket, words.encode()).startswith(b"+OK"):
                    raise Failed(f"Redis rejected {words}")
            ask(self.socket, b"SHUTDOWN NOSAVE")
            ended(begun)

    def run(self, prefix: list[str]) -> Phases:
        """Measures the time to the first PING, and from SHUTDOWN NOSAVE to the end."""
        self.socket.unlink(missing_ok=True)
        begin = time.monotonic()
        with child(prefix + self.command, self.work / "said", stdout=subprocess.DEVNULL) as begun:
            self.served(begun)
            ready = time.monotonic()
            ask(self.socket, b"SHUTDOWN NOSAVE")
            ended(begun)
            end = time.monotonic()
        return {"ready": ready - begin, "stop": end - ready, "all": end - begin}

    def version(self) -> str:
        """Returns the version of Redis."""
        return first_line("redis-server", "--version")


class Model(Case):
    """One of the uses of memory in bench/real/model.c, which times its own steps."""

    def __init__(self, work: Path, way: str, what: str, size: int) -> None:
        """Selects a use of memory, its description, and the size in bytes."""
        self.work = work
        self.way = way
        self.memory = size
        self.shared = way == "shm"
        self.name = f"{what}, {gigabytes(size)}"
        self.command = [str(work / "model"), way, str(size)]

    def prepare(self) -> None:
        """Compiles the program."""
        need("gcc", "gcc")
        subprocess.run(["gcc", "-O2", "-Wall", "-o", self.work / "model", HERE / "model.c"], check=True)
        if "lock" in self.way or self.way == "shm":
            need_locking(self.memory)

    def run(self, prefix: list[str]) -> Phases:
        """Returns the times of the program's own steps, and the time to its end."""
        before = shared_memory()
        begin = time.monotonic()
        try:
            with child(prefix + self.command, self.work / "said", stdout=subprocess.PIPE) as begun:
                said = read_until(begun.stdout, b"end\n").decode()
                left = time.monotonic()
                ended(begun)
                end = time.monotonic()
        except BaseException:
            remove_segments(self.memory)
            raise
        phases = {words[0]: float(words[1]) for words in map(str.split, said.splitlines()) if len(words) == 2}
        phases |= {"exit": end - left, "all": end - begin}
        if self.shared:
            until_given_back(before)
            phases["memory is back"] = time.monotonic() - begin - sum(phases[step] for step in ("attach", "lock", "touch"))
        return phases
