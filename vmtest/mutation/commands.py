"""The commands that every changed dump is given to, their documented exit statuses, and the files they may leave."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Names of the state's kernel; some that no kernel has.
SYMBOLS = ("init_task", "_stext", "schedule+0x10", "no_such_symbol", "", "ffffffff81000000", "modules")
TYPES = ("task_struct", "struct page", "no_such_type", "list_head", "enum zone_type", "schedule", "x")
LOCATIONS = (
    ("init_task",), ("init_task.tasks.next",), ("runqueues@0",), ("runqueues@7",), ("modules", "list_head"),
    ("init_task", "no_such_type"), ("ffffffff81000000",), ("no_such_symbol",), ("--physical", "1000"),
    ("--full", "--depth", "9", "init_task"),
)  # fmt: skip
CODECS = ("none", "zlib", "lzo", "snappy", "zstd", "adaptive")
SAVED = r"(vmdump|vmcore|dmesg|info)\.\d+"


@dataclass(frozen=True)
class Input:
    """The changed dump, and what belongs to it."""

    parts: Sequence[Path]
    whole: Sequence[Path]  # the same dump, unchanged
    core: Path  # of which it was made
    identity: Path | None
    is_vmdump: bool

    @property
    def joined(self) -> str:
        """Returns the parts as one argument."""
        return ",".join(map(str, self.parts))


@dataclass(frozen=True)
class Call:
    """A command line without the program; what it may do."""

    words: Sequence[str | Path]
    # Files in the directory of the run that it may leave, as a regular expression; after a failure also with
    # `.incomplete` where `keeps` is set.
    leaves: str = ""
    keeps: bool = False
    statuses: frozenset[int] = frozenset((0, 1))
    is_text: bool = True
    # Control characters that belong to the output.
    control: str = ""
    may_change_input: bool = False
    program: str = "bigiron"


@dataclass(frozen=True)
class Command:
    """A command by its name in the table and in --only."""

    name: str
    make: Callable[[random.Random, Input], Call]
    weight: int = 1
    encrypted: bool = True  # it takes --identity
    applies: Callable[[Input], bool] = field(default=lambda given: True)


def _words(words: Sequence[str | Path], given: Input) -> list[str | Path]:
    return [*words, *(["--identity", given.identity] if given.identity else [])]


def _info(*topics: str) -> Callable[[random.Random, Input], Call]:
    return lambda dice, given: Call(_words(["info", *topics, *given.parts], given))


def _dmesg(dice: random.Random, given: Input) -> Call:
    styles = ((), ("--json",), ("-x", "--caller"), ("--level", "err,warn"), ("--since-clear",))
    return Call(_words(["dmesg", *dice.choice(styles), *given.parts], given))


def _named(command: str, names: Sequence[str]) -> Callable[[random.Random, Input], Call]:
    def make(dice: random.Random, given: Input) -> Call:
        chosen = dice.sample([name for name in names if name], 3)
        json = ["--json"] if dice.randrange(4) == 0 else []
        return Call(_words([command, *json, given.joined, *chosen], given))

    return make


def _read(dice: random.Random, given: Input) -> Call:
    return Call(_words(["read", given.joined, *dice.choice(LOCATIONS)], given))


def _read_raw(dice: random.Random, given: Input) -> Call:
    where = dice.choice((("--physical", "0"), ("_stext",), ("ffffffff81000000",)))
    return Call(_words(["read", "--raw", "-n", "64K", given.joined, *where], given), is_text=False)


def _dump(*options: str, parts: str = "") -> Callable[[random.Random, Input], Call]:
    def make(dice: random.Random, given: Input) -> Call:
        more = ["-d", dice.choice(("0", "1", "17", "31")), *options]
        if options[:2] == ("-f", "kdump"):
            more += ["-c", dice.choice(CODECS)]
        outputs = [parts, "one,two"] if parts else []
        last = [] if parts else ["out"]
        return Call(_words(["dump", *more, *outputs, *given.parts, *last], given), "out|one|two", keeps=True)

    return make


def _stream(dice: random.Random, given: Input) -> Call:
    form = dice.choice(("flattened", "vmdump"))
    return Call(_words(["dump", "-f", form, *given.parts, "-"], given), is_text=False)


def dump_to_elf(given: Input, output: str) -> Call:
    """Returns the command line that expands a dump, with a summary in JSON."""
    return Call(_words(["dump", "--json", "-d", "0", "-f", "elf", *given.parts, output], given), re.escape(output), keeps=True)


def _verify(*options: str) -> Callable[[random.Random, Input], Call]:
    return lambda dice, given: Call(_words(["verify", *options, *given.parts], given))


def verify_against(given: Input) -> Call:
    """Returns the command line that compares a dump with the core that it was made of."""
    return Call(_words(["verify", *given.parts, "--against", given.core], given))


def _repair(dice: random.Random, given: Input) -> Call:
    return Call(_words(["verify", "--repair", *given.parts], given), may_change_input=True)


def save(given: Input, *options: str) -> Call:
    """Returns the command line that saves a dump into the directory of the run."""
    return Call(_words(["save", *options, *given.parts, "saved/"], given), rf"saved|saved/{SAVED}", may_change_input=True)


def _report(dice: random.Random, given: Input) -> Call:
    return Call(_words(["report", "-o", "out.html", *given.parts], given), r"out\.html")


def _diff(dice: random.Random, given: Input) -> Call:
    whole = ",".join(map(str, given.whole))
    more = dice.choice(((), ("--list",), ("--json",)))
    return Call(_words(["diff", *more, given.joined, whole], given), statuses=frozenset((0, 1, 2)))


def _alias(dice: random.Random, given: Input) -> Call:
    flags = dice.choice((("-c", "-d", "31"), ("-l", "-d", "1"), ("-z",), ("-E", "-d", "31"), ("--dump-dmesg",)))
    words = [*flags, given.parts[0], "out"]
    if len(given.parts) > 1:
        words = ["--reassemble", *given.parts, "out"]
    # Its progress ends with a carriage return.
    return Call(words, "out", keeps=True, statuses=frozenset((0, 1, 2)), control="\r", program="makedumpfile")


def _vmcore_dmesg(dice: random.Random, given: Input) -> Call:
    # As in kexec-tools: white space is printed as it is, and the status distinguishes failures.
    return Call([given.parts[0]], statuses=frozenset((0, 1, 2, 50)), control="\r\v\f", program="vmcore-dmesg")


COMMANDS = (
    Command("info", _info()),
    Command("info-all", _info("--all"), weight=3),
    Command("info-json", _info("--all", "--json")),
    Command("info-tasks", _info("--tasks")),
    Command("info-stacks", _info("--stacks", "--backtrace"), weight=2),
    Command("info-queues", _info("--run-queues")),
    Command("info-memory", _info("--memory", "--pages"), weight=2),
    Command("info-modules", _info("--modules")),
    Command("dmesg", _dmesg, weight=2),
    Command("sym", _named("sym", SYMBOLS)),
    Command("type", _named("type", TYPES)),
    Command("read", _read, weight=2),
    Command("read-raw", _read_raw),
    Command("domains", lambda dice, given: Call(_words(["cpu", "domains", given.joined], given))),
    Command("verify", _verify(), weight=2),
    Command("verify-json", _verify("--json")),
    Command("against", lambda dice, given: verify_against(given), weight=2),
    Command("repair", _repair, weight=3, applies=lambda given: given.is_vmdump),
    Command("dump-kdump", _dump("-f", "kdump"), weight=2),
    Command("dump-flattened", _dump("-f", "flattened")),
    Command("dump-elf", lambda dice, given: dump_to_elf(given, "out"), weight=4),
    Command("dump-vmdump", _dump("-f", "vmdump")),
    Command("dump-bzip2", _dump("-f", "vmdump", "-c", "bzip2")),
    Command("dump-split", _dump("-f", "kdump", parts="--split")),
    Command("dump-striped", _dump("-f", "vmdump", parts="--stripe")),
    Command("dump-stream", _stream),
    Command("save", lambda dice, given: save(given), weight=3),
    Command("save-expanded", lambda dice, given: save(given, "-f"), weight=2),
    Command("report", _report, weight=2),
    Command("triage-row", lambda dice, given: Call(_words(["triage", "row", given.joined], given))),
    Command("diff", _diff),
    Command("makedumpfile", _alias, encrypted=False),
    Command("vmcore-dmesg", _vmcore_dmesg, encrypted=False),
)
BY_NAME = {one.name: one for one in COMMANDS}
