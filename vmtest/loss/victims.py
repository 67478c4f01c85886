"""The operations that are killed, what must hold at any moment, and what the next run must do."""

import hashlib
import itertools
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from mutation import commands, limited, memory
from mutation.commands import Input

DEVICE_SIZE = 24 << 20
SAVED = ["dmesg.0", "info.0", "vmdump.0"]


def digest(path: Path) -> bytes:
    """Returns a hash of a file."""
    return hashlib.blake2b(path.read_bytes()).digest()


@dataclass(frozen=True)
class World:
    """The program, and the core that dumps are made of."""

    bigiron: Path
    core: Path

    def run(self, directory: Path, *words: str | Path) -> limited.Ran:
        """Runs the program to its end."""
        return limited.run([self.bigiron, *words], directory, self.core.stat().st_size)

    def must(self, directory: Path, *words: str | Path) -> None:
        """Runs the program, which must succeed."""
        ran = self.run(directory, *words)
        if ran.status != 0:
            raise LabError(f"{' '.join(map(str, ran.words))}: {_said(ran)}")

    def pages(self, directory: Path, dump: Path) -> dict[int, bytes]:
        """Returns digests of the pages that the program reads of a dump; none if it refuses the dump."""
        place = directory / "pages"
        place.mkdir()
        given = Input([dump], [], self.core, None, True)
        found = memory.of_run(self.run(place, *commands.dump_to_elf(given, "core").words), place, "core")
        shutil.rmtree(place)
        return found.pages if found else {}

    def equals_core(self, directory: Path, *dump: Path) -> str:
        """Returns a defect of a dump that should be complete and equal to the core."""
        ran = self.run(directory, "verify", "--against", self.core, *dump)
        return "" if ran.status == 0 else f"{dump[0].name} is not whole: {_said(ran)}"


def _said(ran: limited.Ran) -> str:
    lines = (ran.stderr or ran.stdout).decode(errors="replace").strip().splitlines()
    return f"{ran.ended}: {' / '.join(lines[-2:])}"


class Victim(ABC):
    """An operation in a directory of its own, with what it needs."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world, self.directory = world, directory

    @property
    @abstractmethod
    def words(self) -> list[str | Path]:
        """The command line, without the program."""

    @property
    @abstractmethod
    def outputs(self) -> list[Path]:
        """The places that the operation writes to."""

    @abstractmethod
    def reset(self) -> None:
        """Restores the state before the operation."""

    @abstractmethod
    def holds(self) -> str:
        """Returns a defect of the state at this moment, or nothing."""

    @abstractmethod
    def done(self) -> str:
        """Returns a defect of the state after a run that was not killed, or nothing."""

    def next_run(self) -> str:
        """Runs the operation again; returns a defect, or nothing."""
        ran = self.world.run(self.directory, *self.words)
        return f"the next run fails: {_said(ran)}" if ran.status != 0 else self.done()

    def names(self, directory: Path | None = None) -> list[str]:
        """Returns the names of the files in the directory, or in another one."""
        place = directory or self.directory
        return sorted(path.name for path in place.iterdir()) if place.exists() else []


class DumpFile(Victim):
    """A dump into files. A file with a final name is whole at any moment; the dump before is unchanged."""

    def __init__(self, world: World, directory: Path, options: Sequence[str], parts: str = "", replaces: bool = False) -> None:
        super().__init__(world, directory)
        self.options, self.parts, self.replaces = options, parts, replaces
        self.earlier = directory / "earlier"

    @property
    def files(self) -> list[Path]:
        """The outputs under their final names."""
        return [self.directory / name for name in (("one", "two") if self.parts else ("dump",))]

    @property
    def outputs(self) -> list[Path]:
        return [self.directory]

    @property
    def words(self) -> list[str | Path]:
        named: list[str | Path] = [self.parts, "one,two", self.world.core] if self.parts else [self.world.core, "dump"]
        # After a kill behind the last step, the dump is already there.
        return ["dump", "-q", "--overwrite", *self.options, *named]

    def reset(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        self.earlier.write_bytes(b"an earlier dump")
        if self.replaces:
            self.world.must(self.directory, *self.words)

    def holds(self) -> str:
        if self.earlier.read_bytes() != b"an earlier dump":
            return "another file has changed"
        there = [path for path in self.files if path.exists()]
        if self.replaces and len(there) != len(self.files):
            return f"the dump before is gone: {self.names()}"
        for path in self.directory.glob("*.incomplete*"):
            ran = self.world.run(self.directory, "verify", "-q", path)
            if ran.status not in (0, 1):
                return f"verify of {path.name}: {_said(ran)}"
        # Of several files, all have their final names only at the end.
        if len(there) < len(self.files):
            return ""
        wrong = self.world.equals_core(self.directory, *there)
        return "" if wrong and self._is_being_renamed() else wrong

    def _is_being_renamed(self) -> bool:
        """Returns true if the parts are those of one dump, of which some have replaced those of the dump before and
        some have their temporary names: several names cannot be given at once."""
        able = [[path, *self.directory.glob(f"{path.name}.incomplete*")] for path in self.files]
        sets = itertools.product(*able) if len(self.files) > 1 else ()
        return any(not self.world.equals_core(self.directory, *parts) for parts in sets)

    def done(self) -> str:
        # What a killed run has written stays, since it may be all that there is.
        names = {name for name in self.names() if not re.search(r"\.incomplete(\.\d+)?$", name)}
        if names != {"earlier", *(path.name for path in self.files)}:
            return f"files after the next run: {self.names()}"
        return self.world.equals_core(self.directory, *self.files)


class DumpDevice(Victim):
    """A dump onto a device, with the remains of earlier ones. At any moment `save` ends well."""

    @property
    def device(self) -> Path:
        return self.directory / "device"

    @property
    def outputs(self) -> list[Path]:
        return [self.directory]

    @property
    def words(self) -> list[str | Path]:
        # The next run replaces the one that was killed.
        return ["dump", "-q", "-f", "vmdump", "--keep", "newest", "--device", self.world.core, "device"]

    def reset(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        with open(self.device, "wb") as file:
            file.truncate(DEVICE_SIZE)

    def holds(self) -> str:
        with open(self.device, "rb") as file:
            if not any(file.read(4096)):
                # Nothing was written, and a file of zeros is no dump device.
                return ""
        before = self.world.pages(self.directory, self.device)
        place = self.directory / "saved"
        ran = self.world.run(self.directory, "save", "-q", "--keep", "--again", self.device, f"{place}/")
        wrong = f"save of what is there: {_said(ran)}" if ran.status != 0 else ""
        copies = sorted(place.glob("vmdump.*")) if place.exists() else []
        if before and not copies and not wrong:
            wrong = f"{len(before)} pages can be read, and save saves nothing"
        if copies and not wrong:
            wrong = memory.lost(before, self.world.pages(self.directory, copies[0]))
        shutil.rmtree(place, ignore_errors=True)
        return wrong

    def done(self) -> str:
        return self.world.equals_core(self.directory, self.device)


class Save(Victim):
    """A dump that is saved from a device or a file. A copy under its final name is whole; without one, the dump is
    still there."""

    def __init__(self, world: World, directory: Path, device: bool, cut: int = 0) -> None:
        super().__init__(world, directory)
        self.is_device = device
        made = directory.with_name(f"{directory.name}.made")
        made.mkdir()
        self.original = made / "original"
        if device:
            with open(self.original, "wb") as file:
                file.truncate(DEVICE_SIZE)
        # Not compressed, so that it takes a while.
        options = ["--device"] if device else []
        world.must(made, "dump", "-q", "-f", "vmdump", "-d", "0", *options, world.core, self.original)
        if cut:
            with open(self.original, "r+b") as file:
                file.truncate(cut)
        shutil.copyfile(self.original, made / "source")
        world.must(made, "save", "-q", made / "source", f"{made / 'saved'}/")
        self.expected = digest(made / "saved" / "vmdump.0")

    @property
    def source(self) -> Path:
        return self.directory / "source"

    @property
    def saved(self) -> Path:
        return self.directory / "saved"

    @property
    def outputs(self) -> list[Path]:
        return [self.saved]

    @property
    def words(self) -> list[str | Path]:
        return ["save", "-q", "source", "saved/"]

    def reset(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        shutil.copyfile(self.original, self.source)
        # The file is recognized by its time, too.
        shutil.copystat(self.original, self.source)

    def holds(self) -> str:
        copies = [name for name in self.names(self.saved) if name.startswith("vmdump.") and name[7:].isdigit()]
        if len(copies) > 1:
            return f"{len(copies)} copies: {copies}"
        if copies:
            return "" if digest(self.saved / copies[0]) == self.expected else f"{copies[0]} is not whole"
        # The device's mark may change together with the copy's name only.
        return "" if digest(self.source) == digest(self.original) else "there is no copy, and the source has changed"

    def done(self) -> str:
        if self.names(self.saved) != SAVED:
            return f"files after the next run: {self.names(self.saved)}"
        return self.holds()


class Repair(Victim):
    """A truncated vmdump that is repaired. What was readable stays readable."""

    def __init__(self, world: World, directory: Path, part: float, *options: str) -> None:
        super().__init__(world, directory)
        made = directory.with_name(f"{directory.name}.made")
        made.mkdir()
        self.original = made / "original"
        world.must(made, "dump", "-q", "-f", "vmdump", "-d", "1", *options, world.core, self.original)
        with open(self.original, "r+b") as file:
            file.truncate(int(self.original.stat().st_size * part))
        self.before = world.pages(made, self.original)

    @property
    def dump(self) -> Path:
        return self.directory / "dump"

    @property
    def outputs(self) -> list[Path]:
        return [self.directory]

    @property
    def words(self) -> list[str | Path]:
        return ["verify", "-q", "--repair", "dump"]

    def reset(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        shutil.copyfile(self.original, self.dump)

    def holds(self) -> str:
        return memory.lost(self.before, self.world.pages(self.directory, self.dump))

    def next_run(self) -> str:
        # It remains incomplete: status 1.
        ran = self.world.run(self.directory, *self.words)
        return f"the next run fails: {_said(ran)}" if ran.status not in (0, 1) else self.done()

    def done(self) -> str:
        return self.holds()


def all_victims(world: World, work: Path) -> dict[str, Victim]:
    """Returns the operations by name, each with a directory below `work`."""
    def place(name: str) -> Path:
        return work / name

    return {
        "dump-kdump": DumpFile(world, place("kdump"), ["-c", "lzo", "-d", "1"]),
        "dump-vmdump": DumpFile(world, place("vmdump"), ["-f", "vmdump", "-d", "1"]),
        "dump-bzip2": DumpFile(world, place("bzip2"), ["-f", "vmdump", "-c", "bzip2", "-d", "1"]),
        "dump-elf": DumpFile(world, place("elf"), ["-f", "elf", "-d", "0"]),
        "dump-flattened": DumpFile(world, place("flattened"), ["-f", "flattened", "-d", "1"]),
        "dump-split": DumpFile(world, place("split"), ["-d", "1"], "--split"),
        "dump-striped": DumpFile(world, place("striped"), ["-d", "1"], "--stripe"),
        "dump-replaces": DumpFile(world, place("replaces"), ["-d", "1"], replaces=True),
        "dump-device": DumpDevice(world, place("device")),
        "save-device": Save(world, place("save-device"), device=True),
        "save-file": Save(world, place("save-file"), device=False),
        "save-cut": Save(world, place("save-cut"), device=False, cut=1 << 19),
        "repair-zstd": Repair(world, place("repair"), 0.7, "--chunk-size", "64K"),
        "repair-bzip2": Repair(world, place("repair-bzip2"), 0.7, "-c", "bzip2", "--chunk-size", "64K"),
    }
