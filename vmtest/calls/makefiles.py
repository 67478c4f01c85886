"""Reads names, arguments and flags of tests from glibc's Makefiles. Only assignments are interpreted, not
conditions."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Lists of tests. Entries of the second kind of list are tests too, but are not run, for the given reason.
_TESTS = re.compile(r"(?:tests|tests-internal|tests-static|test-srcs|strop-tests)")
_NOT_RUN = {
    "xtests": "`make check` does not run it: it takes long or changes the machine",
    "tests-container": "requires a root directory with a complete glibc",
}


@dataclass
class Makefile:
    """The tests of one directory's Makefile."""

    tests: set[str] = field(default_factory=set)
    not_run: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, tuple[str, ...]] = field(default_factory=dict)
    flags: dict[str, tuple[str, ...]] = field(default_factory=dict)


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    joined = re.sub(r"\\\n", " ", text)
    for line in joined.splitlines():
        found = re.match(r"([A-Za-z0-9_.-]+)\s*[:+?]?=\s*(.*)", line)
        if found:
            yield found[1], found[2].split("#")[0].strip()


def _plain_words(value: str, name: str) -> tuple[str, ...] | None:
    """Returns the words of a value; none if it contains variables other than the program's own name."""
    for variable in ("$(host-test-program-cmd)", "$(host-built-program-cmd)"):
        value = value.replace(variable, f"/tmp/{name}")
    return None if "$" in value else tuple(word.strip("'\"") for word in value.split())


def read(path: Path) -> Makefile:
    """Reads a Makefile; a missing file yields no tests."""
    makefile = Makefile()
    if not path.exists():
        return makefile
    for variable, value in _assignments(path.read_text(errors="replace")):
        if _TESTS.fullmatch(variable):
            # strop-tests lists names of functions; the names of the tests have the prefix test-.
            before = "test-" if variable == "strop-tests" else ""
            makefile.tests.update(before + word for word in value.split() if "$" not in word)
        elif variable in _NOT_RUN:
            makefile.not_run.update((word, _NOT_RUN[variable]) for word in value.split() if "$" not in word)
        elif variable.endswith("-ARGS"):
            name = variable.removesuffix("-ARGS")
            words = _plain_words(value, name)
            if words:
                makefile.arguments[name] = words
        elif variable.startswith("CFLAGS-") and variable.endswith(".c"):
            name = variable.removeprefix("CFLAGS-").removesuffix(".c")
            makefile.flags[name] = makefile.flags.get(name, ()) + (_plain_words(value, name) or ())
    return makefile
