#!/usr/bin/env python3
"""Checks that documents and program agree on options.

usage: check_docs.py PROGRAM... [--update]

PROGRAM is a built bigiron, and other programs of the project with the same kind of --help.
- docs/commands.md lists every command with every option, exactly as --help prints them; --update writes it.
- Every option that a document names beside one of these programs is an option of that command.
- Every option that a document names by itself is an option of some command, or of a program in FOREIGN.
- Every relative link leads to a file that exists.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "commands.md"
COLUMNS = "100"

# Documents about other programs' options: checked where bigiron itself is named only.
FOREIGN_DOCUMENTS = {"docs/makedumpfile.md"}

# Options of other programs that documents name without the program beside them.
FOREIGN = {
    "--help",
    "--version",
    # makedumpfile
    "--config", "--dump-dmesg", "--eppic", "--num-threads", "--mem-usage", "--show-stats", "--split-block-size",
    # cargo, dracut and the scripts of the project
    "--add", "--build-std", "--cfg", "--full", "--list", "--only", "--remake", "--release", "--sparse",
}

HEADER = """# Commands

Every command with every option, as `--help` prints it. `bigiron man DIR` writes the same as man pages.

<!-- Written by scripts/check_docs.py --update; do not edit. -->
"""


@dataclass
class Command:
    """A command: its help text, options and subcommands."""

    path: list[str]
    help: str
    options: set[str] = field(default_factory=set)
    commands: dict[str, "Command"] = field(default_factory=dict)

    def walk(self):
        yield self
        for command in self.commands.values():
            yield from command.walk()


def help_text(program: Path, path: list[str]) -> str:
    environment = os.environ | {"COLUMNS": COLUMNS, "NO_COLOR": "1"}
    arguments = [program, *path, "--help"]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n"


def read_command(program: Path, path: list[str]) -> Command:
    """Reads a command and its subcommands from their help."""
    text = help_text(program, path)
    command = Command([program.name, *path], text)
    section = None
    for line in text.splitlines():
        if line and not line.startswith(" "):
            section = line
        elif section == "Commands:" and (match := re.match(r"  ([a-z]\S*)(?:  |$)", line)):
            if match[1] != "help":
                command.commands[match[1]] = read_command(program, [*path, match[1]])
        elif re.match(r" {2,6}-", line):
            # Only the head of an option's entry: "  -d, --dump-level <0..31>".
            head = re.split(r"\s{2,}|\s<|\s\[|=|\[", line.strip())[0]
            command.options.update(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", head))
    return command


def reference(programs: list[Command]) -> str:
    parts = [HEADER]
    for program in programs:
        for command in program.walk():
            parts.append(f"## {' '.join(command.path)}\n\n```text\n{command.help}```\n")
    return "\n".join(parts)


def commands_in(text: str, programs: dict[str, Command]):
    """Yields (command, options) for each invocation of a program in a line of shell or an inline code span."""
    for match in re.finditer(r"(?<![\w/.-])(?:\S*/)?(" + "|".join(map(re.escape, programs)) + r")((?:\s+[^|;&`]*)?)", text):
        command, words = programs[match[1]], match[2].split("  #")[0].split()
        while words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        options = []
        for word in words:
            if word in ("--", "#"):
                break
            if option := re.match(r"^\[?(--?[A-Za-z][\w-]*)", word):
                options.append(option[1])
        yield command, options


def is_known(command: Command, option: str) -> bool:
    if option in command.options or option in ("--help", "-h", "--version", "-V"):
        return True
    # Short options may stand together, or in front of their value: -j4.
    return re.match(r"^-[A-Za-z]", option) is not None and option[:2] in command.options


def code(text: str):
    """Yields (line number, code, is_block) for blocks and inline spans of a Markdown document."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield number, line, True
        else:
            for span in re.findall(r"`([^`]+)`", line):
                yield number, span, False


def check(document: Path, programs: dict[str, Command]) -> list[str]:
    """Returns what is wrong in a document."""
    name = str(document.relative_to(ROOT))
    text = document.read_text()
    wrong = []
    all_options = {option for program in programs.values() for command in program.walk() for option in command.options}
    for number, piece, is_block in code(text):
        found = False
        for command, options in commands_in(piece, programs):
            found = True
            # Without a command it is a label, as in a table of measurements: "bigiron -j1".
            candidates = [command] if len(command.path) > 1 else list(command.walk())
            for option in options:
                if not any(is_known(candidate, option) for candidate in candidates):
                    wrong.append(f"{name}:{number}: {' '.join(command.path)} has no option {option}")
        if is_block or found or name in FOREIGN_DOCUMENTS:
            continue
        option = re.match(r"^(--[a-z][\w-]*)", piece)
        if option and option[1] not in all_options and option[1] not in FOREIGN:
            wrong.append(f"{name}:{number}: no command has the option {option[1]}")
    for number, line in enumerate(text.splitlines(), 1):
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line):
            if "://" not in link and not (document.parent / link).exists():
                wrong.append(f"{name}:{number}: {link} does not exist")
    return wrong


def main() -> int:
    arguments = [argument for argument in sys.argv[1:] if argument != "--update"]
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    programs = [read_command(Path(argument).resolve(), []) for argument in arguments]
    text = reference(programs)
    if "--update" in sys.argv:
        REFERENCE.write_text(text)
    wrong = []
    if not REFERENCE.exists() or REFERENCE.read_text() != text:
        wrong.append(f"docs/commands.md is not what --help prints: run scripts/check_docs.py --update {' '.join(arguments)}")
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md"), *ROOT.glob("packaging/**/*.md")]
    documents = [document for document in sorted(documents) if document not in (REFERENCE, ROOT / "CHANGELOG.md")]
    by_name = {program.path[0]: program for program in programs}
    for document in documents:
        wrong.extend(check(document, by_name))
    print("\n".join(wrong) or f"{len(documents)} documents agree with {', '.join(by_name)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
