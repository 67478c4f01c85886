"""The tests of glibc, run one by one with the system's C library. Only the tests and their support library are
built."""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import cache
from lab.errors import LabError

from . import makefiles, programs, store
from .programs import Program

HEADERS = Path(__file__).resolve().parent / "headers"

# Tests of memory, processes and threads come first.
DIRECTORIES = (
    "posix", "nptl", "sysdeps/pthread", "sysvipc", "misc", "malloc", "rt", "sysdeps/unix/sysv/linux", "io", "signal",
    "time", "stdlib", "stdio-common", "string", "setjmp", "dirent", "socket", "dlfcn", "elf", "libio", "wcsmbs",
    "debug", "support", "assert", "resource", "termios", "pwd", "grp", "argp", "ctype", "locale", "iconv", "intl",
    "login", "inet", "resolv", "nss", "gmon", "timezone", "crypt", "math",
)  # fmt: skip

# Selects the short run: programs that call functions which the library replaces.
_NEAR = re.compile(r"\b(mmap|mmap64|munmap|mremap|mlock|mlock2|mlockall|munlock|shmat|shmdt|shmget|shmctl|xmmap|"
                   r"xmunmap|on_exit|_exit|pthread_attr_setstack)\s*\(")

# Tests that would harm the machine or its other programs.
_LEFT_OUT = {
    "tst-clock_settime": "sets the machine's clock",
    "tst-settimeofday": "sets the machine's clock",
    "tst-adjtime": "sets the machine's clock",
    "tst-ntp_adjtime": "sets the machine's clock",
    "tst-clock2": "sets the machine's clock",
    "tst-malloc-too-large": "requests more memory than exists, for minutes",
}  # fmt: skip

# Prints the size of its address space, which includes any library.
_NUMBERS_VARY = {"tst-dynarray-fail"}

_PATHS = ("OBJDIR", "INSTDIR", "LIBDIR", "BINDIR", "SBINDIR", "ROOTSBINDIR", "SLIBDIR", "COMPLOCALEDIR", "LOCALEDIR",
          "SRCDIR", "SYSCONFDIR", "ROOTLIBDIR")  # fmt: skip
_LIBRARIES = ("-lm", "-lrt", "-ldl", "-lpthread", "-lresolv", "-lcrypt", "-lanl", "-lutil")


def _flags(tree: Path) -> list[str]:
    paths = [f'-D{name}_PATH="/nonexistent"' for name in _PATHS]
    return [
        "-std=gnu11", "-O1", "-w", "-s", "-D_GNU_SOURCE", "-D_LIBC_REENTRANT", "-DMODULE_NAME=testsuite",
        "-DTIMEOUTFACTOR=1", '-DOBJPFX="/tmp/"', "-Dlibc_hidden_proto(x)=", "-Dlibc_hidden_def(x)=",
        "-Dattribute_hidden=", '-DOBJDIR_ELF_LDSO_PATH="/lib64/ld-linux-x86-64.so.2"', *paths,
        f"-I{HEADERS}", f"-I{tree}/support",
    ]  # fmt: skip


def _behind(tree: Path, *directories: str) -> list[str]:
    """Returns flags for folders of the source that are searched after the system's folders, to avoid hiding their
    headers."""
    return [word for name in directories for word in ("-idirafter", str(tree / name))]


def support_library(tree: Path) -> Path:
    """Builds libsupport.a once, without the parts that depend on glibc's internals."""
    final = store.root() / "support" / store.version(store.GLIBC[0]) / "libsupport.a"
    with cache.lock("libsupport"):
        if final.exists():
            return final
        text = (tree / "support" / "Makefile").read_text()
        listed = re.search(r"^libsupport-routines = (.*?[^\\])$", text, re.DOTALL | re.MULTILINE)
        if listed is None:
            raise LabError(f"{tree}/support/Makefile has no list libsupport-routines: not glibc 2.36?")
        objects = final.parent / "objects"
        objects.mkdir(parents=True, exist_ok=True)
        behind = _behind(tree, "sysdeps/unix/sysv/linux", "include", ".")
        command = ["gcc", *_flags(tree), *behind, "-include", "limits.h", "-c"]

        def one(name: str) -> Path | None:
            made = objects / f"{name}.o"
            source = str(tree / "support" / f"{name}.c")
            done = subprocess.run([*command, source, "-o", str(made)], capture_output=True)
            return made if done.returncode == 0 else None

        with ThreadPoolExecutor(programs.JOBS) as pool:
            made = [path for path in pool.map(one, listed[1].replace("\\", " ").split()) if path]
        partial = final.with_name(f".{os.getpid()}.a")
        subprocess.run(["ar", "rcsD", str(partial), *map(str, made)], check=True)
        partial.rename(final)
        return final


def _arguments(source: Path, makefile: makefiles.Makefile) -> tuple[str, ...]:
    """Returns the arguments of a test. Tests of string functions get fewer random strings, which would take most of a
    minute."""
    text = source.read_text(errors="replace")
    if "test-string.h" in text and not re.search(r"define\s+ITERATIONS", text):
        return ("--iterations=200",)
    return makefile.arguments.get(source.stem, ())


def _program(tree: Path, library: Path, directory: str, makefile: makefiles.Makefile, name: str) -> Program | None:
    source = tree / directory / f"{name}.c"
    if not source.exists():
        return None
    behind = _behind(tree, directory, "nptl", "sysdeps/nptl", "sysdeps/pthread", "sysdeps/unix/sysv/linux",
                     "sysdeps/generic", "include", ".")
    return Program(
        suite=f"glibc/{directory}",
        name=name,
        source=source,
        flags=(*_flags(tree), *makefile.flags.get(name, ()), "-iquote", str(tree), *behind),
        libraries=(str(library), *_LIBRARIES),
        arguments=_arguments(source, makefile),
        numbers_vary=name in _NUMBERS_VARY,
        left_out=_LEFT_OUT.get(name) or makefile.not_run.get(name),
    )


def find(*, near: bool) -> list[Program]:
    """Returns all tests of glibc; with `near`, only those whose source calls functions that the library replaces."""
    tree = store.source(*store.GLIBC)
    library = support_library(tree)
    found: list[Program] = []
    for directory in DIRECTORIES:
        makefile = makefiles.read(tree / directory / "Makefile")
        for name in sorted(makefile.tests | makefile.not_run.keys()):
            program = _program(tree, library, directory, makefile, name)
            if program and (not near or _NEAR.search((tree / directory / f"{name}.c").read_text(errors="replace"))):
                found.append(program)
    return found
