"""Runs storms with gcc's sanitizers in the program: their runtimes replace the same calls, and are loaded first."""

import subprocess
from pathlib import Path

from lab.errors import LabError, Unavailable

from .parts import Results
from .run import SMALL, Library, Ran, build, run

OPTIONS = (
    ("STORM_SANITIZER", "yes"),
    ("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=0:exitcode=99"),
    ("TSAN_OPTIONS", "halt_on_error=1:exitcode=99:report_signal_unsafe=0"),
)
TOGETHER, SIGNALS = ("together", 7, 2, 4, 40), ("signals", 7, 40)
# ThreadSanitizer does not support processes that share memory, nor handlers that jump out of its code. With
# ThreadSanitizer loaded, the library makes plain calls, which is tested here.
KINDS = (
    ("address", "libasan.so", (("one", 7, 400, 1), ("many", 7, 200, 4), TOGETHER, SIGNALS)),
    ("thread", "libtsan.so", (TOGETHER,)),
)


def _runtime(name: str) -> str:
    printed = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
    if not Path(printed).is_absolute():
        raise Unavailable(f"gcc has no {name}")
    return printed


def sanitizers(directory: Path, library: Path, results: Results) -> None:
    """Runs the storms with the address and thread sanitizers."""
    for kind, runtime, modes in KINDS:
        try:
            first = _runtime(runtime)
            made = directory / kind
            made.mkdir()
            program = build(made, f"-fsanitize={kind}")
        except LabError as error:
            print(f"    {kind} sanitizer: {error}")
            continue
        for mode in modes:
            # Skips modes that fail under the sanitizer even without the library.
            if run(program, Library(None, "", (first,)), *mode, more=OPTIONS).status != 0:
                print(f"    {kind} sanitizer, {mode[0]}: fails in the plain run too; skipped")
                continue
            ran: Ran = run(program, Library(library, SMALL, (first,)), *mode, more=OPTIONS)
            wrong = "" if ran.status == 0 else f"    {ran.ended}\n" + "\n".join(ran.output.splitlines()[-40:])
            results.record(f"{kind} sanitizer, {mode[0]}", wrong)
