"""Compares `bigiron cpu domains --bpf` on a running kernel with that kernel's debugfs and /proc/schedstat."""

import base64
import gzip
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import tools
from lab.errors import LabError

from . import guest
from .guest import Topology
from .trees import SCRIPT as TREES
from .trees import Moment

# Longer than any balancing, in nanoseconds: after this cost is written, it can only decay (update_newidle_cost,
# kernel/sched/fair.c).
WRITTEN = 1_000_000_000
# Values with equal names in debugfs and JSON; values that debugfs writes as words.
NUMBERS = ("min_interval", "max_interval", "busy_factor", "imbalance_pct", "cache_nice_tries")
WORDS = ("flags", "groups_flags")

FUNCTIONS = """
tree() { echo "--- $1"; /bigiron cpu domains --bpf --as json | gzip | base64; echo "---"; }
both() { shot "$1: before"; tree "$1"; shot "$1: after"; }
show() { echo "--- $1"; shift; "$@" 2>&1; echo "status $?"; echo "---"; }
# As user nobody, with the given capabilities.
with() { /setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps "$1" --ambient-caps "$1" /bigiron cpu domains $2; }
tune() {
    for domain in /sys/kernel/debug/sched/domains/cpu0/domain*; do
        for file in min_interval max_interval busy_factor imbalance_pct cache_nice_tries; do
            echo $(($(cat "$domain/$file") + 7)) >"$domain/$file"
        done
    done
    cost=3000000000
    for domain in /sys/kernel/debug/sched/domains/cpu*/domain*; do
        echo $cost >"$domain/max_newidle_lb_cost"
        cost=$((cost + 1000000000))
    done
}
"""
QUIET = "quiet"
MOMENTS = (("all online", ":"), ("two offline", "off 3 6"), ("tuned", "tune"))
MACHINES = (
    Topology("threads", "8,sockets=2,cores=2,threads=2"),
    Topology(
        "chain",
        "8,sockets=4,cores=2,threads=1",
        nodes=("0-1", "2-3", "4-5", "6-7"),
        distances=((0, 1, 20), (0, 2, 30), (0, 3, 40), (1, 2, 20), (1, 3, 30), (2, 3, 20)),
    ),
)


@dataclass
class Judged:
    """Result of a comparison."""

    differences: list[str] = field(default_factory=list)
    domains: int = 0
    values: int = 0  # number of compared values
    moved: int = 0  # number of values that changed while they were read, and are not compared

    def summary(self) -> str:
        """Returns the result in one line."""
        if self.differences:
            return f"{len(self.differences)} differences"
        return f"{self.domains} domains, {self.values} values equal, {self.moved} changed while read"


def judge(before: Moment, tree: dict[str, Any], after: Moment, series: str) -> Judged:
    """Compares the tree of `bigiron cpu domains --bpf --as json` with the kernel's own files, read before and after it.
    Values that the kernel changed in between are counted, not compared."""
    judged = Judged()
    earlier, later = before.domains(series), after.domains(series)
    if tree["warnings"] or tree["source"] != "the running kernel":
        judged.differences.append(f"from {tree['source']}, with warnings {tree['warnings']}")
    if earlier.keys() != tree["cpus"].keys():
        judged.differences.append(f"the kernel has CPUs {sorted(earlier)}, bigiron {sorted(tree['cpus'])}")
    for cpu, chain in tree["cpus"].items():
        theirs = earlier.get(cpu, [])
        if len(theirs) != len(chain):
            judged.differences.append(f"CPU {cpu}: the kernel has {len(theirs)} domains, bigiron {len(chain)}")
            continue
        for number, (first, ours, last) in enumerate(zip(theirs, chain, later.get(cpu, theirs))):
            judged.domains += 1
            own = _as_files(ours)
            for name, value in first.items():
                decays = name == "max_newidle_lb_cost" and int(value) > WRITTEN
                if value != last.get(name) and not decays:
                    judged.moved += 1
                    continue
                judged.values += 1
                if not (int(last[name]) <= int(own[name]) <= int(value) if decays else own.get(name) == value):
                    what = f"CPU {cpu} domain{number} {name}"
                    judged.differences.append(f"{what}: the kernel has {value}, bigiron {own.get(name)}")
    if not judged.domains:
        judged.differences.append("there are no domains")
    return judged


def _as_files(domain: dict[str, Any]) -> dict[str, Any]:
    """Converts a domain from JSON to the form of the kernel's files."""
    named = {name: str(domain[name]) for name in ("name", "level", "max_newidle_lb_cost")}
    words = {name: " ".join(domain[name]) for name in WORDS}
    return {**named, **words, **{name: str(domain["tunables"][name]) for name in NUMBERS}, "span": _cpus(domain["span"])}


def _cpus(text: str) -> set[int]:
    parts = [part.split("-") for part in text.split(",") if part]
    return {cpu for part in parts for cpu in range(int(part[0]), int(part[-1]) + 1)}


def _unpacked(console: str, name: str) -> dict[str, Any]:
    """Returns the tree printed by the script."""
    text = gzip.decompress(base64.b64decode(guest.section(console, name)))
    if not text:
        raise LabError(f"bigiron printed no tree ({name})\n{console[-3000:]}")
    tree: dict[str, Any] = json.loads(text)
    return tree


def _without_moving(tree: dict[str, Any]) -> dict[str, Any]:
    """Clears values that change while CPUs are idle."""
    return {cpu: [{**domain, "max_newidle_lb_cost": 0} for domain in chain] for cpu, chain in tree["cpus"].items()}


def _boot(machine: Topology, series: str, bigiron: Path, command_line: str, lines: list[str]) -> str:
    setpriv = shutil.which("setpriv")
    if not setpriv:
        raise LabError("setpriv is not installed: it is part of util-linux")
    programs = {"bigiron": bigiron, "setpriv": Path(setpriv)}
    return guest.run_here(machine, series, programs, "\n".join(lines), command_line=command_line, seconds=600)


def _record(run: str, judged: Judged) -> dict[str, Any]:
    for line in judged.differences[:12]:
        print(f"    {line}")
    return {"run": run, "status": len(judged.differences), "detail": judged.summary()}


def compared(console: str, series: str, name: str, run: str) -> dict[str, Any]:
    """Returns the record of a state that the script printed by `both NAME`."""
    before, after = (Moment.of(guest.section(console, f"{name}: {when}")) for when in ("before", "after"))
    return _record(f"{series} {run}", judge(before, _unpacked(console, name), after, series))


def _compare(machine: Topology, series: str, bigiron: Path) -> list[dict[str, Any]]:
    """Compares all states of a machine, and also while the kernel's files are hidden."""
    # First without the kernel's domain files.
    lines = [FUNCTIONS, f"tree {QUIET}", TREES]
    for name, before in MOMENTS:
        lines += [before, f'both "{name}"']
    console = _boot(machine, series, bigiron, "", lines)
    records = [compared(console, series, name, f"{machine.name}, {name}") for name, _ in MOMENTS]
    shown = _without_moving(_unpacked(console, MOMENTS[0][0]))
    hidden = {"verbose not set": _unpacked(console, QUIET)}
    hidden["debugfs=off"] = _unpacked(_boot(machine, series, bigiron, "debugfs=off", [FUNCTIONS, f"tree {QUIET}"]), QUIET)
    for name, tree in hidden.items():
        judged = Judged(domains=sum(map(len, tree["cpus"].values())))
        judged.values = judged.domains
        if _without_moving(tree) != shown:
            judged.differences.append("the tree differs from the one with the kernel's own files visible")
        records.append(_record(f"{series} {machine.name}, {name}", judged))
    return records


@dataclass(frozen=True)
class Refusal:
    """A command in an environment where BPF is allowed or refused, and its expected output."""

    name: str
    command: str
    words: tuple[str, ...]


# As user nobody: with all required capabilities, with one of two, and with none.
REFUSALS = (
    Refusal("CAP_BPF and CAP_PERFMON", "with +bpf,+perfmon --bpf", ("SMT 0-1", "status 0")),
    Refusal("CAP_BPF alone", "with +bpf --bpf", ("CAP_PERFMON", "status 1")),
    Refusal("no capability, BPF", "with -all --bpf", ("CAP_BPF", "--debugfs or --schedstat", "status 1")),
    Refusal("no capability, any source", "with -all", ("CAP_BPF", "/proc/schedstat instead", "domain0 0-1", "status 0")),
)
LOCKED = (
    Refusal("locked down, BPF", "/bigiron cpu domains --bpf", ("locked down", "status 1")),
    Refusal("locked down, any source", "/bigiron cpu domains", ("locked down", "/proc/schedstat instead", "status 0")),
)


def _refuse(series: str, bigiron: Path) -> list[dict[str, Any]]:
    """Tests the output where BPF is refused."""
    records = []
    for command_line, refusals in (("", REFUSALS), ("lockdown=confidentiality", LOCKED)):
        lines = [FUNCTIONS, "chmod 755 /", *(f'show "{refusal.name}" {refusal.command}' for refusal in refusals)]
        console = _boot(MACHINES[0], series, bigiron, command_line, lines)
        for refusal in refusals:
            text = guest.section(console, refusal.name)
            missing = [word for word in refusal.words if word not in text]
            if missing:
                print(f"    {text}")
            detail = f"does not contain {missing}" if missing else "names the missing right and an alternative"
            records.append({"run": f"{series} {refusal.name}", "status": len(missing), "detail": detail})
    return records


def _built(*words: str) -> Path:
    """Builds a program of bigiron's own tests and returns its path."""
    command = ["cargo", *words, "--locked", "--quiet", "--profile", "unit", "-p", "bigiron-cpu", "--message-format", "json"]
    messages = [json.loads(line) for line in tools.run(command, timeout=1800).splitlines() if line.startswith("{")]
    programs = [message["executable"] for message in messages if message.get("executable")]
    if not programs:
        raise LabError(f"{' '.join(command)} made no program")
    return Path(programs[-1])


REBUILDS = 3


def _marks(series: str) -> list[dict[str, Any]]:
    """Tests the marks that BPF reports for rebuilt domains, also with many threads, and measures the time of
    reading."""
    programs = {"sources": _built("build", "--example", "sources"), "bpf": _built("test", "--no-run", "--test", "bpf")}
    lines = ["echo Y >/sys/kernel/debug/sched/verbose", "echo --- costs", "/sources", "echo ---"]
    lines += ['marks() { echo "--- $1"; /sources marks; echo ---; }', "marks 0", "marks 1"]
    for number in range(REBUILDS):
        for state in (0, 1):
            lines += [f"echo {state} >/sys/devices/system/cpu/cpu3/online", f"marks {2 + 2 * number + state}"]
    lines += ["echo --- threads", "/bpf --nocapture", "echo ---"]
    console = guest.run_here(MACHINES[0], series, programs, "\n".join(lines), seconds=600)
    shown = [guest.section(console, str(number)).splitlines() for number in range(2 + 2 * REBUILDS)]
    marks = [dict(line.split()[1:] for line in lines if line.startswith("mark ")) for lines in shown]
    wrong = [] if marks[0] and marks[0] == marks[1] else ["marks changed without a rebuild"]
    for before, after in zip(marks[1:], marks[2:]):
        same = [cpu for cpu in before if before[cpu] == after.get(cpu)]
        wrong += [f"CPU {', '.join(same)}: the mark did not change in a rebuild"] if same else []
    costs = guest.section(console, "costs").splitlines()
    took = {name: int(value) / 1000 for name, value in (line.split() for line in costs if len(line.split()) == 2)}
    read = ", ".join(f"{name} {took[name]:.2f} ms" for name in ("bpf.load", "bpf", "bpf.mark", "debugfs", "schedstat"))
    detail = f"{len(wrong)} differences" if wrong else f"{2 * REBUILDS} rebuilds seen; {read}"
    threads = guest.section(console, "threads")
    fine = "test result: ok" in threads and "skipped" not in threads
    for line in [*wrong, *([] if fine else [threads])]:
        print(f"    {line}")
    return [
        {"run": f"{series} marks of {len(marks[0])} CPUs", "status": len(wrong), "detail": detail},
        {"run": f"{series} many threads", "status": int(not fine), "detail": "all have their own" if fine else "failed"},
    ]


def run(bigiron: Path, series: str, full: bool) -> list[dict[str, Any]]:
    """Runs the comparisons. The second machine is used only in a full run."""
    machines = MACHINES if full else MACHINES[:1]
    compared = [record for machine in machines for record in _compare(machine, series, bigiron)]
    return compared + _refuse(series, bigiron) + _marks(series)
