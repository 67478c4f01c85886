"""One case: a dump that is changed by the case's own random numbers, and the commands that it is given to."""

import hashlib
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import changes, checks, commands, limited, memory
from .commands import Call, Command, Input
from .formats import BY_NAME, FORMATS, Format

COMMANDS_PER_CASE = 5
# A device has two blocks that describe it: `save` clears its mark in them.
BLOCK = 4096
# Of `verify --against`, where a damaged note hides the dump level.
MISSING_UNKNOWN = b"pages that the dump lacks are not checked"


@dataclass(frozen=True)
class Stock:
    """The unchanged dumps, and the program under test."""

    programs: Path  # a directory with bigiron and its other names
    dumps: dict[str, list[Path]]
    others: dict[str, Path]  # dumps of the same formats made again, for splices
    cores: dict[str, Path]
    pages: dict[str, dict[int, bytes]]  # of the unchanged dumps
    identity: Path
    kept: Path


@dataclass
class Result:
    """What one case found."""

    case: str
    # Command, exit status, processor time in seconds, memory in bytes.
    runs: list[tuple[str, int, float, int]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


class Case:
    """A changed dump in a temporary directory."""

    def __init__(self, stock: Stock, name: str, work: Path) -> None:
        self.stock, self.name, self.work = stock, name, work
        self.format: Format = BY_NAME[name.rpartition("/")[0]]
        self.dice = random.Random(name)
        self.result = Result(name)
        self.number = 0
        whole = stock.dumps[self.format.name]
        files = changes.Files([bytearray(path.read_bytes()) for path in whole], self._other(), {})
        self.result.said = changes.change(self.dice, files, not self.format.options)
        self.parts = [work / path.name for path in whole]
        for number, (path, data) in enumerate(zip(self.parts, files.parts)):
            with open(path, "wb") as file:
                file.write(data)
                file.truncate(max(files.tails.get(number, 0), len(data)))
        self.size = sum(path.stat().st_size for path in self.parts)

    def _other(self) -> bytes:
        name = self.dice.choice((self.format.name, self.dice.choice(FORMATS).name))
        return self.stock.others.get(name, self.stock.dumps[name][0]).read_bytes()

    def input(self, parts: Sequence[Path] | None = None) -> Input:
        """Returns the dump as commands take it."""
        core, key = self.stock.cores[self.format.base], self.stock.identity if self.format.encrypted else None
        return Input(parts or self.parts, self.stock.dumps[self.format.name], core, key, self.format.vmdump)

    def run(self, name: str, make: Callable[[Input], Call], given: Input | None = None) -> tuple[limited.Ran, Path]:
        """Runs a command in a directory of its own, and checks the general rules."""
        given = given or self.input()
        self.number += 1
        directory = self.work / f"run{self.number}"
        directory.mkdir()
        call = make(given)
        before = [self._digest(path) for path in given.parts]
        ran = limited.run([self.stock.programs / call.program, *call.words], directory, self.size)
        self.result.runs.append((name, ran.status, ran.seconds, ran.memory))
        wrong = checks.run_is_good(call, ran, directory, self.size)
        if not call.may_change_input and before != [self._digest(path) for path in given.parts]:
            wrong.append("the dump has changed")
        command = " ".join([call.program, *map(str, call.words)])
        self.result.failures += [(name, f"{text}\n    {command}") for text in wrong]
        return ran, directory

    def _digest(self, path: Path) -> bytes:
        return hashlib.blake2b(path.read_bytes()).digest()

    def fail(self, name: str, text: str) -> None:
        """Records a failure that concerns several runs."""
        if text:
            self.result.failures.append((name, text))

    def memory(self, name: str, given: Input | None = None) -> memory.Memory | None:
        """Returns the pages that the program reads of a dump."""
        ran, directory = self.run(name, lambda given: commands.dump_to_elf(given, "core"), given)
        found = memory.of_run(ran, directory, "core")
        shutil.rmtree(directory)
        return found

    def copy(self) -> Input:
        """Returns a copy of the changed dump, for a command that writes to it."""
        self.number += 1
        directory = self.work / f"copy{self.number}"
        directory.mkdir()
        copies = [directory / path.name for path in self.parts]
        for path, copy in zip(self.parts, copies):
            shutil.copyfile(path, copy)
        return self.input(copies)

    # The checks of particular commands.

    def elf(self) -> None:
        """Expanded to an ELF core, every page is right, or reported as lost."""
        found = self.memory("dump-elf")
        if found and self.format.checked:
            self.fail("dump-elf", memory.differences(self.stock.pages[self.format.name], found))

    def against(self) -> None:
        """A dump that is equal to its core, as the program says, has the same pages in any case. Where it says that it
        does not know which pages the dump level keeps, it has no wrong page."""
        ran, _ = self.run("against", commands.verify_against)
        if ran.status != 0:
            return
        found, wanted = self.memory("against"), self.stock.pages[self.format.name]
        if found is None:
            self.fail("against", "equal to its source, but it cannot be read")
            return
        missing = "" if MISSING_UNKNOWN in ran.stderr else memory.lost(wanted, found.pages)
        different = memory.wrong(wanted, found.pages) or missing
        self.fail("against", different and f"equal to its source, but: {different}")

    def repair(self) -> None:
        """What was readable before a repair is readable after it."""
        before = self.memory("repair")
        copy = self.copy()
        self.run("repair", lambda given: commands.BY_NAME["repair"].make(self.dice, given), copy)
        if before is None:
            return
        after = self.memory("repair", copy)
        self.fail("repair", "it cannot be read any more" if after is None else memory.lost(before.pages, after.pages))

    def save(self, *options: str) -> None:
        """A saved dump has what the program read of it before."""
        name = "save-expanded" if options else "save"
        before = self.memory(name)
        _, directory = self.run(name, lambda given: commands.save(given, *options), self.copy())
        saved = sorted((directory / "saved").glob("vm*")) if (directory / "saved").exists() else []
        if not saved or before is None:
            return
        # An encrypted dump is saved decrypted.
        given = Input([saved[0]], [], self.stock.cores[self.format.base], None, True)
        after = self.memory(name, given)
        if after is None and not before.pages:
            # An ELF core of no page has no segment, and no program reads it.
            return
        self.fail(name, "its copy cannot be read" if after is None else memory.lost(before.pages, after.pages))


# Commands whose runs are compared with others.
SPECIAL: dict[str, Callable[[Case], None]] = {
    "dump-elf": Case.elf,
    "against": Case.against,
    "repair": Case.repair,
    "save": Case.save,
    "save-expanded": lambda case: case.save("-f"),
}


def chosen(case: Case, given: Input, only: frozenset[str], every: bool) -> list[Command]:
    """Returns the commands of a case: those wanted, or some by its random numbers."""
    able = [one for one in commands.COMMANDS if one.applies(given) and (one.encrypted or not given.identity)]
    picked = random.Random(f"commands of {case.name}").choices(able, [one.weight for one in able], k=COMMANDS_PER_CASE)
    if only:
        return [one for one in able if one.name in only]
    return able if every else list(dict.fromkeys(picked))


def run(stock: Stock, name: str, only: frozenset[str] = frozenset(), every: bool = False) -> Result:
    """Runs a case. Its files are kept if it fails, or with `every`, which runs all commands."""
    with tempfile.TemporaryDirectory(prefix="bigiron-mutation.") as directory:
        case = Case(stock, name, Path(directory))
        for one in chosen(case, case.input(), only, every):
            if one.name in SPECIAL:
                SPECIAL[one.name](case)
            else:
                dice = random.Random(f"{one.name} of {name}")
                case.run(one.name, lambda given, one=one, dice=dice: one.make(dice, given))
        if case.result.failures or every:
            _keep(case)
        return case.result


def _keep(case: Case) -> None:
    kept = case.stock.kept / case.name.replace("/", "-")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for path in case.parts:
        shutil.copyfile(path, kept / path.name)
    lines = [case.name, *case.result.said, *(f"{name}: {text}" for name, text in case.result.failures)]
    (kept / "report.txt").write_text("\n".join(lines) + "\n")
