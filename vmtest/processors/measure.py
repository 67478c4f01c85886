"""Measures the cost of taking CPUs offline in a guest with many CPUs: by several methods, with and without visible
scheduling domains."""

import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import kernels, stages
from lab.errors import LabError

from . import ftrace, guest
from .guest import Topology

# Without this option, the kernel uses a device as its clock, and each read of the clock leaves the emulation.
COMMAND_LINE = "quiet tsc=reliable"
CPUS = 64
SECONDS = 420
FUNCTIONS = (
    "_cpu_down", "_cpu_up", "partition_sched_domains_locked", "build_sched_domains", "update_sched_domain_debugfs",
    "stop_machine_cpuslocked", "synchronize_rcu", "synchronize_rcu_expedited",
)  # fmt: skip

SCRIPT = """
cpu=/sys/devices/system/cpu
mkdir -p /sys/fs/cgroup
mount -t cgroup2 cgroup /sys/fs/cgroup
verbose() { [ ! -e /sys/kernel/debug/sched/verbose ] || echo "$1" >/sys/kernel/debug/sched/verbose; }
# Ways to show scheduling domains.
shown_none() { verbose N; }
shown_export() { verbose Y; }
shown_mount() {
    verbose N
    /bigiron cpu mount --quiet /mnt &
    until mounted /mnt; do sleep 0.1; done
}
shown_read() {
    shown_mount
    while look; do sleep 1; done &
    reader=$!
}
# Reads one file per second in the shell itself: starting a program takes ten times as long as the read.
shown_file() {
    shown_mount
    [ -p never ] || mkfifo never
    while read -r _ </mnt/cpu0/domain0/busy_factor; do read -r -t 1 _ <>never; done 2>/dev/null &
    reader=$!
}
# Reads all files of a CPU that stays online: a quarter of a second on the one processor that runs all CPUs.
look() { cat /mnt/cpu0/domain*/* >/dev/null 2>&1; }
hide() {
    [ -z "$reader" ] || kill "$reader"
    reader=
    ! mounted /mnt || umount /mnt
    wait
}
# Ways to take CPUs offline and bring them online.
down_loop() { for one in $list; do echo 0 >$cpu/cpu$one/online; done; }
up_loop() { for one in $list; do echo 1 >$cpu/cpu$one/online; done; }
down_expedited() { echo 1 >/sys/kernel/rcu_expedited; down_loop; echo 0 >/sys/kernel/rcu_expedited; }
up_expedited() { echo 1 >/sys/kernel/rcu_expedited; up_loop; echo 0 >/sys/kernel/rcu_expedited; }
down_chcpu() { /chcpu -d "$commas" >/dev/null; }
up_chcpu() { /chcpu -e "$commas" >/dev/null; }
down_bigiron() { /bigiron cpu offline --quiet "$commas" >/dev/null; }
up_bigiron() { /bigiron cpu online --quiet "$commas" >/dev/null; }
down_plain() { /bigiron cpu offline --quiet --plain "$commas" >/dev/null; }
up_plain() { /bigiron cpu online --quiet --plain "$commas" >/dev/null; }
down_batch() { /bigiron cpu offline --quiet --batch "$commas" >/dev/null; }
up_batch() { /bigiron cpu online --quiet --batch "$commas" >/dev/null; }
down_smt() { echo off >$cpu/smt/control; }
up_smt() { echo on >$cpu/smt/control; }
down_bigiron_smt() { /bigiron cpu smt --quiet off >/dev/null; }
up_bigiron_smt() { /bigiron cpu smt --quiet on >/dev/null; }
# once SHOWN HOW
once() {
    shown_"$1"
    # Duration of the read itself.
    if [ "$1" = mount ]; then
        mark mount look look
        look
        mark end
    fi
    for way in down up; do
        mark "$1" "$2" $way
        ${way}_"$2" || say "{\\"error\\": \\"$2 $way ended with $?\\"}"
        mark end
        say "{\\"online\\": \\"$(cat $cpu/online)\\", \\"shown\\": \\"$1\\", \\"how\\": \\"$2\\", \\"way\\": \\"$way\\"}"
        sleep 0.2
    done
    hide
    round=$((round + 1))
}
"""


@dataclass(frozen=True)
class Boot:
    """A guest and its operations."""

    name: str
    series: str
    command_line: str
    # Ways to show domains and ways to take CPUs offline, in the order of a round.
    cases: tuple[tuple[str, str], ...]
    rounds: int
    # Number of CPUs to take offline; 0 for all second hardware threads.
    count: int = 16

    @property
    def words(self) -> str:
        """Returns the complete command line of its kernel."""
        return f"{COMMAND_LINE} {self.command_line}".strip()


SHOWN = ("none", "mount", "file", "read")
WAYS = ("loop", "expedited", "chcpu", "plain", "bigiron", "smt", "bigiron_smt", "batch")


def boots(rounds: int, series: Sequence[str]) -> Iterator[Boot]:
    """Yields all guests."""
    if "6.1" in series:
        yield Boot("export", "6.1", "", (("export", "loop"),), rounds)
        yield Boot("no export", "6.1", "debugfs=off", tuple((shown, "loop") for shown in SHOWN), rounds)
        yield Boot("ways, export", "6.1", "", tuple(("export", way) for way in WAYS), max(2, rounds // 3), 0)
    if "6.12" in series:
        yield Boot("export and none", "6.12", "", tuple((shown, "loop") for shown in ("export", *SHOWN)), rounds)
        yield Boot("ways, no export", "6.12", "", tuple(("none", way) for way in WAYS), max(2, rounds // 3), 0)


def _lines(boot: Boot, cpus: int) -> Iterator[str]:
    yield ftrace.SETUP + SCRIPT
    seconds = range(1, cpus, 2)
    chosen = [str(cpu) for cpu in (seconds[-boot.count :] if boot.count else seconds)]
    yield f"cpus={cpus} round=0 list='{' '.join(chosen)}' commas={','.join(chosen)}"
    yield f"trace {' '.join(FUNCTIONS)}"
    # Code is slower when it is emulated for the first time.
    yield f"once {boot.cases[0][0]} loop"
    yield "echo >$tracing/trace"
    for number in range(boot.rounds):
        # The order rotates, because other work may run on the machine.
        turn = number % len(boot.cases)
        for shown, way in (*boot.cases[turn:], *boot.cases[:turn]):
            yield f"once {shown} {way}"
    yield "show_trace"


def _middle(values: Sequence[float]) -> dict[str, float]:
    """Returns the median and the range of the middle half."""
    quarters = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return {name: round(value, 4) for name, value in zip(("low", "median", "high"), quarters)}


def _summary(spans: Sequence[ftrace.Span]) -> dict[str, Any]:
    """Returns the statistics of rounds of the same kind."""
    calls: dict[str, list[float]] = defaultdict(list)
    for span in spans:
        for name, values in span.calls.items():
            calls[name].extend(values)
    return {
        "seconds": [round(span.seconds, 4) for span in spans],
        # Time outside the kernel functions that take CPUs offline or bring them online.
        "around": [
            round(span.seconds - (sum(span.calls.get("_cpu_down", [])) + sum(span.calls.get("_cpu_up", []))) / 1000, 4)
            for span in spans
        ],
        "functions": {
            name: {
                "calls": len(values),
                "ms": _middle(values),
                # Total of each round.
                "sums": [round(sum(span.calls.get(name, [])), 3) for span in spans],
                "medians": [round(statistics.median(span.calls[name]), 4) for span in spans if span.calls.get(name)],
            }
            for name, values in sorted(calls.items())
        },
    }


def traced(
    boot: Boot, cpus: int, programs: Mapping[str, Path], seconds: float
) -> tuple[list[dict[str, Any]], list[ftrace.Span]]:
    """Returns the failures and the rounds of a guest."""
    topology = Topology("many", smp(cpus), ram_mib=2048)
    script = "\n".join(_lines(boot, cpus))
    console = guest.run(topology, boot.series, programs, script, command_line=boot.words, seconds=seconds)
    return [record for record in guest.records(console) if "error" in record], list(ftrace.spans(console))


def smp(cpus: int) -> str:
    """Returns the topology in QEMU's format."""
    return f"{cpus},sockets=4,cores={cpus // 8},threads=2"


def run(boot: Boot, cpus: int, programs: Mapping[str, Path], seconds: float) -> dict[str, Any]:
    """Runs one guest and returns its figures."""
    failed, spans = traced(boot, cpus, programs, seconds)
    rows: dict[tuple[str, ...], list[ftrace.Span]] = defaultdict(list)
    for span in spans:
        rows[tuple(span.words)].append(span)
    if not rows:
        raise LabError("the guest's trace has no rounds")
    chosen = boot.count or cpus // 2
    return {
        "boot": boot.name,
        "kernel": kernels.get(boot.series).release,
        "command_line": boot.words,
        "smp": smp(cpus),
        "cpus": chosen,
        "failed": failed,
        "rows": [
            {"shown": words[0], "how": words[1], "way": words[2], **_summary(spans)} for words, spans in rows.items()
        ],
    }


def with_retry(boot: Boot, cpus: int, programs: Mapping[str, Path]) -> dict[str, Any]:
    """Runs a guest, and once more if it fails: emulated guests sometimes hang."""
    try:
        return run(boot, cpus, programs, SECONDS)
    except LabError as error:
        print(f"{boot.name}: failed, trying once more\n{error}", file=sys.stderr)
        return run(boot, cpus, programs, SECONDS)


def programs(bigiron: Path) -> dict[str, Path]:
    """Returns the programs for the guests."""
    return {"bigiron": bigiron, **stages.with_libraries("chcpu")}
