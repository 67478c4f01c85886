"""Measures the costs of taking CPUs offline in a pseries guest with 64 CPUs, and predicts with them the time that larger
machines take for one thread per core."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab import kernels, program, tools
from lab.errors import LabError

from . import guest, power

# The guest itself, and machines of seed 001: 240 CPUs, and a POWER10 with 1,920.
MACHINES = {
    64: "sockets=4 cores=2 threads=8 far=40",
    240: "sockets=15 cores=2 threads=8 far=40",
    1920: "sockets=15 cores=16 threads=8 far=40",
}

SCRIPT = """
cpu=/sys/devices/system/cpu
now() { cut -d ' ' -f 1 /proc/uptime; }
each() { # STATE
    one=0
    while [ $one -lt 64 ]; do
        [ $((one % 8)) = 0 ] || echo "$1" >$cpu/cpu$one/online
        one=$((one + 1))
    done
}
took() { # NAME COMMAND…
    name=$1 from=$(now)
    shift
    "$@" >/tmp/printed 2>&1 || say "{\\"failed\\": \\"$name\\"}"
    say "{\\"took\\": \\"$name\\", \\"from\\": $from, \\"to\\": $(now), \\"online\\": \\"$(cat $cpu/online)\\"}"
}
costs() { echo "--- $1"; /bigiron cpu simulate --machine "$2" --arch power --kernel "$3" --costs measured --expedite --json; echo "---"; }
# Code is slower when it is emulated for the first time.
each 0
each 1
"""


def _script(series: str) -> str:
    lines = [SCRIPT]
    for _ in range(3):
        lines += ["took loop each 0", "each 1", "took bigiron /bigiron cpu smt --quiet 1", "each 1"]
    return "\n".join(lines + [f'costs {cpus} "{machine}" {series}' for cpus, machine in MACHINES.items()])


def measure(series: str) -> dict[str, Any]:
    """Returns the guest's measurements: seconds of each way to take CPUs offline, and the predictions."""
    console = power.boot(power.NODES.topology, series, _script(series), {"bigiron": program.cross(power.POWER)})
    records = guest.records(console)
    if any("failed" in record for record in records):
        raise LabError(f"a command failed in the guest\n{console[-3000:]}")
    seconds: dict[str, list[float]] = {}
    for record in records:
        if "took" in record:
            seconds.setdefault(record["took"], []).append(round(record["to"] - record["from"], 2))
    predictions = {}
    for cpus in MACHINES:
        found = re.search(r"^\{.*\}$", guest.section(console, str(cpus)), re.MULTILINE)
        if not found:
            raise LabError(f"no prediction for {cpus} CPUs\n{console[-3000:]}")
        predictions[str(cpus)] = json.loads(found[0])
    return {
        "kernel": kernels.get(series, architecture="ppc64el").release,
        "qemu": tools.run([power.emulator().qemu, "--version"]).splitlines()[0],
        "smp": power.NODES.topology.smp,
        "offline": 56,
        "seconds": seconds,
        "predictions": predictions,
    }


def tables(boots: list[dict[str, Any]]) -> Iterator[str]:
    """Yields a table of each kernel: seconds, by strategy and machine."""
    for boot in boots:
        yield f"{boot['kernel']}, 56 of 64 CPUs: " + ", ".join(f"{way} {times}" for way, times in boot["seconds"].items())
        yield "| export of domains | " + " | ".join(boot["predictions"]) + " |"
        yield "|---" * (1 + len(boot["predictions"])) + "|"
        for number, row in enumerate(boot["predictions"]["64"]["rows"]):
            totals = (sum(one["rows"][number]["total"].values()) for one in boot["predictions"].values())
            yield f"| {row['what']} | " + " | ".join(f"{total:.3g}" for total in totals) + " |"
