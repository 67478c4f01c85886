"""Compares scheduling domains of real kernels with those that `bigiron cpu domains --sysfs` builds for their
machines."""

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import tools
from lab.errors import LabError

from . import guest
from .guest import Topology

# From 6.10 on, domains are rebuilt while the CPU that goes offline still counts as online (sched_cpu_deactivate,
# kernel/sched/core.c): their intervals include it until the next rebuild.
COUNTS_LEAVING_CPU = ("6.12",)

# Reads all compared files in one process: each line has the file's name and its text.
SCRIPT = """
echo Y >/sys/kernel/debug/sched/verbose
set_to() { echo "$1" >"/sys/devices/system/cpu/cpu$2/online"; }
off() { for cpu in "$@"; do set_to 0 "$cpu"; done; }
on() { for cpu in "$@"; do set_to 1 "$cpu"; done; }
smt() { echo "$1" >/sys/devices/system/cpu/smt/control; }
shot() {
    echo "--- $1"
    {
        cd /sys/devices/system || return
        find cpu/present cpu/online cpu/isolated cpu/cpu*/topology/*_list cpu/cpu*/cache/index*/level \\
            cpu/cpu*/cache/index*/shared_cpu_list cpu/cpu*/physical_id cpu/cpu*/cpu_capacity \\
            node/online node/node*/cpulist node/node*/distance |
            xargs grep -H ''
        cd /sys/kernel/debug/sched || return
        find domains -type f | xargs grep -H ''
        find domains -mindepth 1 -maxdepth 1
        grep -H '' /proc/schedstat | cut -c 1-300
    } 2>/dev/null | gzip | base64
    echo "---"
}
"""


# Files of a domain, by kernel.
FILES = {
    "6.1": "busy_factor cache_nice_tries flags imbalance_pct max_interval max_newidle_lb_cost min_interval name",
    "6.12": "busy_factor cache_nice_tries flags groups_flags imbalance_pct level max_interval max_newidle_lb_cost "
    "min_interval name",
}


@dataclass(frozen=True)
class Case:
    """A machine, and the states of its CPUs in which domains are compared."""

    topology: Topology
    # Names of the states, and the script lines that precede each.
    moments: tuple[tuple[str, str], ...] = (("all online", ""),)
    command_line: str = ""
    # Kernels with which it is tested in a quick run too.
    quick: tuple[str, ...] = ()


def _mesh(nodes: int, far: dict[frozenset[int], int], other: int) -> tuple[tuple[int, int, int], ...]:
    pairs = [(a, b) for a in range(nodes) for b in range(a + 1, nodes)]
    return tuple((a, b, far.get(frozenset((a, b)), other)) for a, b in pairs)


def _near(*pairs: tuple[int, int], distance: int = 20) -> dict[frozenset[int], int]:
    return {frozenset(pair): distance for pair in pairs}


BOTH = ("6.1", "6.12")
CASES = (
    Case(
        Topology("threads", "8,sockets=2,cores=2,threads=2"),
        (
            ("all online", ""),
            ("one thread offline", "off 3"),
            ("a core offline", "off 2"),
            ("a package offline", "off 4 5 6 7"),
            ("all online again", "on 2 3 4 5 6 7"),
            ("SMT off", "smt off"),
        ),
        quick=BOTH,
    ),
    Case(
        Topology("dies", "12,sockets=1,dies=3,cores=2,threads=2"),
        (("all online", ""), ("a die offline except one CPU", "off 5 6 7"), ("one die", "off 4 8 9 10 11")),
    ),
    Case(
        Topology("AMD", "16,sockets=2,cores=4,threads=2", processor="EPYC,+topoext"),
        (("all online", ""), ("three offline", "off 1 2 9")),
    ),
    Case(
        Topology("no threads", "6,sockets=3,cores=2,threads=1"),
        (("all online", ""), ("a package of one", "off 3"), ("one CPU left", "off 1 2 4 5")),
    ),
    Case(Topology("lonely", "2,sockets=2,cores=1,threads=1")),
    Case(
        Topology(
            "three nodes, one without CPUs", "8,sockets=2,cores=2,threads=2",
            nodes=("0-3", "", "4-7"), distances=((0, 1, 40), (0, 2, 21), (1, 2, 17)),
        ),
        (("all online", ""), ("a node offline", "off 4 5 6 7"), ("one of its CPUs online", "on 6")),
    ),
    Case(
        Topology(
            "ring", "8,sockets=4,cores=1,threads=2", nodes=("0-1", "2-3", "4-5", "6-7"),
            distances=_mesh(4, _near((0, 1), (1, 2), (2, 3), (3, 0)), 31),
        ),
        (("all online", ""), ("a node offline", "off 2 3"), ("halves", "on 2; off 5 7"), ("two nodes", "off 2 6")),
        quick=("6.12",),
    ),
    Case(
        Topology(
            "chain", "8,sockets=4,cores=2,threads=1", nodes=("0-1", "2-3", "4-5", "6-7"),
            distances=((0, 1, 20), (0, 2, 30), (0, 3, 40), (1, 2, 20), (1, 3, 30), (2, 3, 20)),
        ),
        (("all online", ""), ("the middle offline", "off 2 3 4"), ("middle online again", "off 5; on 2 3")),
        quick=("6.1",),
    ),
    Case(
        Topology(
            "glueless", "16,sockets=8,cores=1,threads=2", nodes=tuple(f"{n}-{n + 1}" for n in range(0, 16, 2)),
            distances=_mesh(
                8,
                _near((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (4, 5), (4, 6), (4, 7), (5, 6), (5, 7), (6, 7))
                | _near((0, 4), (1, 5), (2, 6), (3, 7), distance=21),
                30,
            ),
        ),
        (("all online", ""), ("some offline", "off 1 4 5 10 15")),
    ),
    Case(
        Topology(
            "two rings", "12,sockets=6,cores=2,threads=1", nodes=tuple(f"{n}-{n + 1}" for n in range(0, 12, 2)),
            distances=_mesh(6, _near((0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)) | _near((0, 3), distance=25), 35),
        ),
    ),
    Case(
        Topology("nodes in a package", "8,sockets=1,cores=4,threads=2", nodes=("0-3", "4-7"), distances=((0, 1, 12),)),
        (("all online", ""), ("a node offline", "off 4 5 6 7"), ("SMT off", "on 4 5 6 7; smt off")),
        quick=("6.1",),
    ),
    Case(
        Topology(
            "uneven nodes", "12,sockets=3,cores=2,threads=2", nodes=("0-1", "2-7", "8-11"),
            distances=((0, 1, 11), (0, 2, 20), (1, 2, 22)),
        ),
        (("all online", ""), ("some offline", "off 0 3 9 10 11")),
    ),
    Case(
        Topology("isolated", "8,sockets=2,cores=2,threads=2", nodes=("0-3", "4-7"), distances=((0, 1, 21),)),
        (("all online", ""), ("one more offline", "off 4")),
        command_line="isolcpus=2,5",
        quick=("6.12",),
    ),
    Case(
        Topology("most isolated", "8,sockets=4,cores=2,threads=1"),
        (("all online", ""),),
        command_line="isolcpus=domain,managed_irq,1-6 nohz_full=1-6",
    ),
    Case(
        Topology("booted with SMT off", "8,sockets=2,cores=2,threads=2", nodes=("0-3", "4-7"), distances=((0, 1, 20),)),
        (("all online", ""), ("SMT on", "smt on")),
        command_line="nosmt",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Moment:
    """The files of a guest in one state."""

    files: dict[str, str]

    @classmethod
    def of(cls, text: str) -> "Moment":
        """Parses the output of the script."""
        with tempfile.TemporaryDirectory(prefix="bigiron-cpus.") as directory:
            packed = Path(directory) / "packed"
            packed.write_text(text)
            lines = tools.run(["sh", "-c", f"base64 -d {packed} | gunzip"]).splitlines()
        files: dict[str, list[str]] = {}
        for line in lines:
            name, _, rest = line.partition(":")
            files.setdefault(name, []).extend([rest] if rest or ":" in line else [])
        return cls({name: "".join(f"{line}\n" for line in content) for name, content in files.items()})

    def write(self, into: Path) -> None:
        """Writes the files below /sys/devices/system."""
        for name, text in self.files.items():
            if name.startswith(("cpu/", "node/")):
                path = into / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)

    def domains(self, series: str) -> dict[str, list[dict[str, Any]]]:
        """Returns the kernel's domains by CPU: the files of debugfs, with the spans from /proc/schedstat."""
        spans = self._spans()
        cpus: dict[str, list[dict[str, Any]]] = {cpu: [] for cpu in spans}
        for cpu, masks in spans.items():
            for number, span in enumerate(masks):
                here = f"domains/cpu{cpu}/domain{number}/"
                fields = {name.removeprefix(here): text for name, text in self.files.items() if name.startswith(here)}
                if sorted(fields) != FILES[series].split():
                    raise LabError(f"debugfs shows {sorted(fields)} of domain{number} of CPU {cpu}")
                cpus[cpu].append({"span": span, **{name: text.strip() for name, text in sorted(fields.items())}})
            if f"domains/cpu{cpu}/domain{len(masks)}/name" in self.files:
                raise LabError(f"debugfs shows domain{len(masks)} of CPU {cpu}, which /proc/schedstat lacks")
        return cpus

    def _spans(self) -> dict[str, list[set[int]]]:
        spans: dict[str, list[set[int]]] = {}
        for line in self.files["/proc/schedstat"].splitlines():
            if found := re.match(r"cpu(\d+) ", line):
                current = spans.setdefault(found[1], [])
            elif found := re.match(r"domain\d+ (?:[A-Z]\S* )?([0-9a-f,]+) ", line):
                mask = int(found[1].replace(",", ""), 16)
                current.append({cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1})
        return spans


def _numbers(cpus: str) -> set[int]:
    parts = [part.split("-") for part in cpus.split(",") if part]
    return {cpu for part in parts for cpu in range(int(part[0]), int(part[-1]) + 1)}


def _built(bigiron: Path, series: str, moment: Moment) -> dict[str, list[dict[str, Any]]]:
    """Returns the domains that bigiron builds for the machine, in the form of the kernel's files."""
    with tempfile.TemporaryDirectory(prefix="bigiron-cpus.") as directory:
        moment.write(Path(directory))
        command = [bigiron, "cpu", "domains", "--sysfs", directory, "--kernel", series, "--as", "json"]
        tree = json.loads(tools.run(command))
    return {
        cpu: [
            {
                "span": _numbers(domain["span"]),
                "name": domain["name"],
                "flags": " ".join(domain["flags"]),
                "groups_flags": " ".join(domain["groups_flags"]),
                "level": str(domain["level"]),
                **{name: str(value) for name, value in domain["tunables"].items()},
            }
            for domain in chain
        ]
        for cpu, chain in tree["cpus"].items()
    }


def _without_the_last(kernel: dict[str, list[dict[str, Any]]], built: dict[str, list[dict[str, Any]]]) -> int:
    """Removes the CPU that went offline last from the kernel's intervals; returns the number of domains that included
    it."""
    found = 0
    for cpu, chain in kernel.items():
        for their, our in zip(chain, built.get(cpu, [])):
            weight = int(our["min_interval"]) + 1
            if (their["min_interval"], their["max_interval"]) == (str(weight), str(2 * weight)):
                their |= {name: our[name] for name in ("min_interval", "max_interval")}
                found += 1
    return found


def differences(kernel: dict[str, list[dict[str, Any]]], built: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Yields the differences between the kernel's domains and bigiron's as lines of text."""
    for cpu in sorted(kernel.keys() | built.keys(), key=int):
        theirs, ours = kernel.get(cpu), built.get(cpu)
        if theirs is None or ours is None:
            yield f"CPU {cpu}: the kernel has {theirs}, bigiron {ours}"
            continue
        if len(theirs) != len(ours):
            yield f"CPU {cpu}: the kernel has {_short(theirs)}, bigiron {_short(ours)}"
            continue
        for number, (their, our) in enumerate(zip(theirs, ours)):
            # This value changes while CPUs are idle.
            for name in sorted(their.keys() - {"max_newidle_lb_cost"}):
                if their[name] != our.get(name):
                    yield f"CPU {cpu} domain{number} {name}: the kernel has {their[name]}, bigiron {our.get(name)}"


def _short(chain: list[dict[str, Any]]) -> str:
    return ", ".join(f"{domain['name']} {sorted(domain['span'])}" for domain in chain) or "none"


def script_of(case: Case) -> str:
    """Returns the script that a guest runs for a case."""
    lines = [SCRIPT]
    for number, (_, before) in enumerate(case.moments):
        lines += [before, f"shot {number}"]
    return "\n".join(lines)


def _try(case: Case, series: str, bigiron: Path) -> list[dict[str, Any]]:
    script = script_of(case)
    console = guest.run_here(case.topology, series, {}, script, command_line=case.command_line, seconds=600)
    return compared(case, series, bigiron, console)


def compared(case: Case, series: str, bigiron: Path, console: str) -> list[dict[str, Any]]:
    """Compares the states that a guest printed; returns a record for each."""
    records = []
    for number, (name, before) in enumerate(case.moments):
        moment = Moment.of(guest.section(console, str(number)))
        kernel = moment.domains(series)
        built = _built(bigiron, series, moment)
        leaving = series in COUNTS_LEAVING_CPU and re.search(r"\boff\b[^;]*$|\bkeep 1$", before)
        late = _without_the_last(kernel, built) if leaving else 0
        wrong = list(differences(kernel, built))
        for line in wrong[:12]:
            print(f"    {line}")
        count = sum(map(len, kernel.values()))
        detail = f"{len(wrong)} differences" if wrong else f"{count} domains of {len(kernel)} CPUs"
        detail += f", {late} include the CPU that went offline last" if late else ""
        records.append({"run": f"{series} {case.topology.name}, {name}", "status": len(wrong), "detail": detail})
    return records


def run(bigiron: Path, series: str, full: bool) -> list[dict[str, Any]]:
    """Runs all machines, or those selected for a quick run."""
    return [record for case in CASES if full or series in case.quick for record in _try(case, series, bigiron)]
