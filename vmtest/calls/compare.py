"""Runs a program with and without the library, and reports differences."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from .cell import TRACE, Cell, Run
from .programs import Built

# Number of further runs of each kind if the first two runs differ.
AGAIN = 3
UNSUPPORTED = 77


class Verdict(Enum):
    """Result of the comparison of one program."""

    SAME = "same"
    FLAKY = "flaky"  # plain runs differ from each other as well
    ANY_LIBRARY = "any library"  # an empty library causes the same difference
    DIFFERENT = "different"
    NOT_RUN = "cannot run"


@dataclass(frozen=True)
class Judged:
    """A program, its verdict, and the reason."""

    built: Built
    policy: str
    verdict: Verdict
    why: str = ""
    # True if the program reports success in a plain run.
    passes: bool = False


_VARYING = (
    (re.compile(rb"0x[0-9a-fA-F]{5,}"), b"0xADDRESS"),
    (re.compile(rb"\b[0-9a-f]{11,16}\b"), b"ADDRESS"),
    (re.compile(rb"\b\d+(\.\d+)? ?(ns|us|ms|s|secs?|seconds?|nsec|usec)\b"), b"TIME"),
    (re.compile(rb"\b\d+\.\d{3,}\b"), b"TIME"),
    (re.compile(rb"\[\d+\]"), b"[PID]"),
    (re.compile(rb"(?i)\bpid[ =:]+\d+"), b"PID"),
)


def without_varying(output: bytes) -> bytes:
    """Returns the output without addresses, times and process ids."""
    for pattern, instead in _VARYING:
        output = pattern.sub(instead, output)
    return output


def without_numbers(output: bytes) -> bytes:
    """Returns the output without numbers, for programs whose numbers differ between plain runs."""
    return re.sub(rb"\b(0x)?[0-9a-fA-F]*\d[0-9a-fA-F]*\b", b"N", without_varying(output))


def _same(one: Run, other: Run) -> bool:
    if one.status != other.status:
        return False
    return one.output == other.output or without_varying(one.output) == without_varying(other.output)


def _first_difference(plain: Run, loaded: Run) -> str:
    if plain.status != loaded.status:
        return f"first {plain.ended}, then {loaded.ended}" + _last_line(loaded)
    before = without_varying(plain.output).decode(errors="replace").splitlines()
    after = without_varying(loaded.output).decode(errors="replace").splitlines()
    for number, (one, other) in enumerate(zip(before, after), 1):
        if one != other:
            return f"line {number}: first {one[:160]!r}, then {other[:160]!r}"
    longer, whose = (before, "first") if len(before) > len(after) else (after, "then")
    common = min(len(before), len(after))
    return f"line {common + 1} only {whose}: {longer[common][:160]!r}" if len(longer) > common else "bytes of the output"


def _last_line(run: Run) -> str:
    lines = run.output.decode(errors="replace").strip().splitlines()
    return f" ({lines[-1][:160]})" if lines else ""


class Comparison:
    """Compares programs under one library and one policy."""

    def __init__(self, cell: Cell, library: Path, empty: Path, seconds: float) -> None:
        self._cell = cell
        self._library = library
        self._empty = empty
        self._seconds = seconds

    def _run(self, built: Built, policy: str, library: Path | None) -> Run:
        assert built.path is not None
        program = built.program
        name = program.name.rsplit("/", 1)[-1]
        # The same files in all runs, and the same name for both libraries: programs may list files and read their
        # environment.
        files = {"library.so": library or self._empty}
        command = str(built.path)
        if not program.installed:
            files[name] = built.path
            command = f"./{name}"
        environment = {"BIGIRON_MEM": policy} if policy else {}
        seconds = self._seconds
        if library:
            environment["LD_PRELOAD"] = "/tmp/library.so"
            seconds *= 2
        run = self._cell.run(
            [command, *program.arguments], files, environment, as_root=program.as_root, seconds=seconds,
            traced=TRACE in policy,
        )  # fmt: skip
        return replace(run, output=without_numbers(run.output)) if program.numbers_vary else run

    def plainly(self, built: Built) -> Run:
        """Runs a program without a library."""
        return self._run(built, "", None)

    def accelerated(self, built: Built, policy: str) -> int:
        """Returns the number of the program's calls in which helpers took part, according to the library's trace."""
        traced = ",".join(filter(None, (policy, f"trace={TRACE}")))
        lines = self._run(built, traced, self._library).trace.splitlines()
        return sum(b" helper" in line for line in lines)

    def differs(self, built: Built, plain: Run) -> bool:
        """Returns true if one run under the library differs from a plain run."""
        return not _same(plain, self._run(built, "", self._library))

    def judge(self, built: Built, policy: str, plain: Run) -> Judged:
        """Compares a plain run with runs under the library."""
        passes = plain.status == 0
        loaded = self._run(built, policy, self._library)
        if _same(plain, loaded):
            return Judged(built, policy, Verdict.SAME, passes=passes)
        plains = [plain, *(self.plainly(built) for _ in range(AGAIN))]
        loadeds = [loaded, *(self._run(built, policy, self._library) for _ in range(AGAIN))]
        verdict, why = _weigh(plains, loadeds)
        if verdict is Verdict.DIFFERENT:
            # A program with varying output may need many runs to show all variants.
            plains += [self.plainly(built) for _ in range(2 * AGAIN)]
            verdict, why = _weigh(plains, loadeds)
        if verdict is Verdict.DIFFERENT:
            empties = [self._run(built, policy, self._empty) for _ in range(2 * AGAIN)]
            if _weigh([*empties, *plains], loadeds)[0] is not Verdict.DIFFERENT:
                verdict = Verdict.ANY_LIBRARY
        return Judged(built, policy, verdict, why, passes)


def _weigh(plains: Sequence[Run], loadeds: Sequence[Run]) -> tuple[Verdict, str]:
    """Returns a verdict from several runs of both kinds."""
    odd = [run for run in loadeds if not any(_same(plain, run) for plain in plains)]
    if not odd:
        return (Verdict.SAME, "") if _all_same(plains) else (Verdict.FLAKY, _first_difference(*_two(plains)))
    why = f"{_first_difference(plains[0], odd[0])} ({len(odd)} of {len(loadeds)} runs)"
    statuses = {run.status for run in plains}
    if _all_same(plains) or any(run.status not in statuses for run in odd):
        return Verdict.DIFFERENT, why
    masked = {(run.status, without_numbers(run.output)) for run in plains}
    if all((run.status, without_numbers(run.output)) in masked for run in odd):
        return Verdict.SAME, ""
    if len(masked) == 1:
        return Verdict.DIFFERENT, why
    # The output differs between plain runs; only the exit status can be compared.
    return Verdict.FLAKY, _first_difference(*_two(plains))


def _all_same(runs: Sequence[Run]) -> bool:
    return all(_same(runs[0], run) for run in runs)


def _two(runs: Sequence[Run]) -> tuple[Run, Run]:
    """Returns two runs that differ."""
    return runs[0], next((run for run in runs if not _same(runs[0], run)), runs[0])


def cannot_run(plain: Run, seconds: float) -> str | None:
    """Returns the reason why a program cannot be judged, based on its plain run; None if it can be judged."""
    if plain.status is None:
        return f"takes longer than {seconds:.0f} s"
    if plain.status == UNSUPPORTED:
        return "reports that it is not supported" + _last_line(plain)
    if plain.status in (126, 127) and not plain.output:
        return "cannot be started"
    return None
