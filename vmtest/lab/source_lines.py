"""Source lines of a real kernel and of a module: elfutils' eu-addr2line and debuginfod are the judges.

binutils' addr2line 2.40 is none: of code that a macro made, as of trace points, it has the right line of a wrong file.
"""

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from verdict import Verdict

from . import faults, kernels, tools
from .errors import LabError
from .fault_cases import CASES

CASE = CASES["null-pointer"]
# Functions of the kernel, evenly spread, and a place in each.
FUNCTIONS = 400
OFFSET = 0x20
SERVER_SECONDS = 300

Line = tuple[str, str, int]


def judge(bigiron: Path, series: str, work: Path) -> Verdict:
    """Judges one kernel, and the module that crashed it."""
    verdict = Verdict(f"{series} source lines")
    made = faults.dump(CASE, series)
    vmlinux = kernels.debug_symbols(kernels.get(series))
    symbols = made / faults.SYMBOLS
    _of_kernel(verdict, bigiron, made / "vmcore", vmlinux)
    _of_module(verdict, bigiron, made / "vmcore", symbols)
    _by_server(verdict, bigiron, made / "vmcore", [vmlinux, symbols], work)
    return verdict


def _bigiron(bigiron: Path, *arguments: str | Path, cache: Path | None = None, urls: str = "") -> str:
    """Runs the program; it finds nothing in the user's own cache."""
    environment = os.environ | {"DEBUGINFOD_CACHE_PATH": str(cache or "/nonexistent"), "DEBUGINFOD_URLS": urls}
    done = subprocess.run([bigiron, *arguments], env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise LabError(f"bigiron {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def _lines(told: list[dict]) -> list[Line]:
    return [(line.get("function", ""), os.path.normpath(line["file"]), line["line"]) for line in told]


def _addr2line(file: Path, addresses: list[int], *options: str) -> list[list[Line]]:
    """The same of each address, as elfutils has them; without the lines that it does not know, or repeats."""
    tools.need("eu-addr2line")
    command = ["eu-addr2line", "--functions", "--inlines", "--addresses", *options, "--executable", file]
    printed = tools.run([*command, *map(hex, addresses)], timeout=1200).splitlines()
    found: list[list[Line]] = []
    rest = iter(printed)
    for text in rest:
        if text.startswith("0x"):
            found.append([])
            continue
        path, line = next(rest).split(":")[:2]
        place = (text.split(" inlined at ")[0], os.path.normpath(path), int(line) if line.isdigit() else 0)
        if place[2] and found[-1][-1:] != [place]:
            found[-1].append(place)
    return found


def _functions(vmlinux: Path) -> dict[str, int]:
    """Functions of which each is the only one with its name, and longer than the offset."""
    rows = [line.split() for line in tools.run(["nm", "--print-size", "--defined-only", vmlinux]).splitlines()]
    functions: dict[str, int] = {}
    shared = set()
    for row in rows:
        if len(row) == 4 and row[2] in "tT" and int(row[1], 16) > OFFSET:
            shared.update({row[3]} & functions.keys())
            functions[row[3]] = int(row[0], 16)
    # Code that is freed after the start is in no dump.
    start = next(int(row[0], 16) for row in rows if row[-1] == "__init_begin")
    usual = {name: at for name, at in functions.items() if name not in shared and at < start and "." not in name}
    step = max(1, len(usual) // FUNCTIONS)
    return dict(list(sorted(usual.items()))[::step])


def _of_kernel(verdict: Verdict, bigiron: Path, vmcore: Path, vmlinux: Path) -> None:
    functions = _functions(vmlinux)
    expected = _addr2line(vmlinux, [address + OFFSET for address in functions.values()])
    names = [f"{name}+{OFFSET:#x}" for name in functions]
    printed = _bigiron(bigiron, "sym", "--json", "--lines", "--debug-info", vmlinux, vmcore, *names)
    told = {row["name"]: _lines(row.get("source", [])) for row in map(json.loads, printed.splitlines())}
    for name, lines in zip(functions, expected, strict=True):
        verdict.count("addresses of the kernel")
        verdict.count("lines", len(lines))
        # It leaves out some of the functions into which the code was inlined.
        if told.get(name, [])[: len(lines)] != lines:
            verdict.differ(f"{name}+{OFFSET:#x}: {told.get(name)}, eu-addr2line has {lines}")


def _of_module(verdict: Verdict, bigiron: Path, vmcore: Path, symbols: Path) -> None:
    found = json.loads(_bigiron(bigiron, "diagnose", "--json", "--debug-info", symbols, vmcore))
    first = found["findings"][0]
    told = _lines(first.get("source", []))
    (start,) = [
        int(row[0], 16)
        for row in (line.split() for line in tools.run(["nm", "--defined-only", symbols]).splitlines())
        if row[-1] == "use"
    ]
    offset = int(first["title"].split("use+")[1].split("/")[0], 16)
    (expected,) = _addr2line(symbols, [start + offset], "--section=.text")
    verdict.require(told == expected and bool(told), f"the module's line: {told}, eu-addr2line has {expected}")
    text = (faults.SOURCE / Path(told[0][1]).name).read_text().splitlines()[told[0][2] - 1] if told else ""
    verdict.require("->" in text, f"the line has no pointer: {text!r}")


@contextmanager
def _server(files: list[Path], work: Path) -> Iterator[str]:
    """A debuginfod with these files; yields its address."""
    tools.need("debuginfod")
    folder = work / "served"
    folder.mkdir()
    for file in files:
        (folder / f"{file.stem}.debug").symlink_to(file)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--fdcache-fds=2", "-F", "-L", "-p", str(port), "-d", str(work / "index"), folder]
    with (work / "log").open("wb") as log, subprocess.Popen(["debuginfod", *options], stdout=log, stderr=log) as server:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def _wait(url: str, build_id: str) -> None:
    deadline = time.monotonic() + SERVER_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{url}/buildid/{build_id}/debuginfo", timeout=60):
                return
        except OSError as error:
            if time.monotonic() > deadline:
                raise LabError(f"debuginfod does not have {build_id}: {error}") from error
            time.sleep(0.5)


def _build_id(file: Path) -> str:
    notes = tools.run(["readelf", "--notes", file])
    return notes.split("Build ID: ")[1].split()[0]


def _by_server(verdict: Verdict, bigiron: Path, vmcore: Path, files: list[Path], work: Path) -> None:
    cache = work / "cache"

    def told(url: str, *options: str) -> list[list[Line]]:
        found = json.loads(_bigiron(bigiron, "diagnose", "--json", *options, vmcore, cache=cache, urls=url))
        kernel = _bigiron(bigiron, "sym", "--json", "--lines", *options, vmcore, "kthread+0x20", cache=cache, urls=url)
        return [_lines(found["findings"][0].get("source", [])), _lines(json.loads(kernel).get("source", []))]

    with _server(files, work) as url:
        for file in files:
            _wait(url, _build_id(file))
        verdict.require(told(url) == [[], []], "a server was asked without --debuginfod")
        fetched = told(url, "--debuginfod")
        verdict.require(all(fetched), f"by debuginfod: {fetched}")
        verdict.require(fetched[0][0][0] == "use" and fetched[1][-1][0] == "kthread", f"by debuginfod: {fetched}")
    for file in files:
        kept = cache / _build_id(file) / "debuginfo"
        verdict.require(kept.read_bytes() == file.read_bytes(), f"{kept} differs from {file}")
    verdict.require(told("") == fetched, "what was fetched is not found in the cache")
    cache = work / "none"
    verdict.require(told(url, "--debuginfod") == [[], []], "lines came from a server that has ended")
