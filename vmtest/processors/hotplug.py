"""Tests of taking CPUs of real kernels offline and bringing them online: comparison with the kernel's own files,
interrupts, and kills."""

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

from . import guest
from .guest import Topology

MACHINE = Topology("hotplug", "8,sockets=2,cores=2,threads=2")
# A guest with two memory nodes and isolated CPUs.
ISOLATED = Topology("hotplug-isolated", "8,sockets=2,cores=2,threads=2", nodes=("0-3", "4-7"))
ISOLATED_LINE = "isolcpus=6-7 nohz_full=5"

# The state of CPUs and domains, and settings that must not change.
COMMON = """
C=/sys/devices/system/cpu
G=/sys/fs/cgroup
mount -t cgroup2 cgroup2 $G
echo Y >/sys/kernel/debug/sched/verbose
settings() {
    cat /sys/kernel/rcu_expedited /sys/kernel/debug/sched/verbose $G/cgroup.subtree_control
    ls /run/bigiron 2>/dev/null | grep -v lock
    ls $G | grep bigiron
}
cpus() {
    cat $C/online $C/offline $C/smt/control
    grep -H '' $C/cpu*/online
    sed -n 's/^\\(cpu[0-9]*\\) .*/\\1/p; s/^\\(domain[0-9]* \\)\\([A-Z]* \\)*\\([0-9a-f,]*\\) .*/\\1\\3/p' /proc/schedstat
    settings
}
try() { # NAME COMMAND…
    echo "--- $1"
    shift
    "$@" 2>&1
    echo "exit $?"
    echo "---"
}
state() { echo "--- $1"; cpus; echo "---"; }
loop() { for cpu in 1 2 3 4 5 6 7; do echo "$1" >$C/cpu$cpu/online; done; }
control() { echo "$1" >$C/smt/control; }
"""

STATES = (
    COMMON
    + """
taskset 80 sleep 10000 &
BOUND=$!
taskset 60 sleep 10000 &
SOME=$!
sleep 10000 &
FREE=$!
tasks() { for task in $BOUND $SOME $FREE; do grep Cpus_allowed_list /proc/$task/status; done; }
each() { # NAME, then four commands: other CPUs offline, online, SMT off, on
    $2; state "$1 offline"
    $3; state "$1 online"
    echo "--- $1 tasks"; tasks; echo "---"
    $4; state "$1 smt off"
    $5; state "$1 smt on"
}
state start
each loop "loop 0" "loop 1" "control off" "control on"
try dry-offline /bigiron cpu offline 1-7 --dry-run
try dry-batch /bigiron cpu smt off --batch --dry-run
try dry-json /bigiron cpu smt off --dry-run --json
state dry
each bigiron "/bigiron cpu offline 1-7" "/bigiron cpu online all" "/bigiron cpu smt off" "/bigiron cpu smt on"
try plain /bigiron cpu smt off --plain
state plain-off
try plain-on /bigiron cpu smt on --plain
# A hardware thread that the kernel keeps offline, and refused requests.
control off
try kept /bigiron cpu online 1
try two /bigiron cpu smt 2
control on
try three /bigiron cpu smt 3
try last /bigiron cpu offline 0-7
mount -o remount,ro /sys
try read-only /bigiron cpu offline 1
mount -o remount,rw /sys
state refused
each batch "/bigiron cpu offline 1-7 --batch" "/bigiron cpu online all --batch" "/bigiron cpu smt off --batch" \\
    "/bigiron cpu smt on --batch"
# Interrupts the command when the first CPU is offline.
for signal in INT TERM; do
    state "before $signal"
    /bigiron cpu offline 1-7 --json >/tmp/json 2>/tmp/log &
    while grep -q ^1 $C/cpu7/online; do usleep 1000; done
    kill -$signal $!
    wait $!
    code=$?
    echo "--- after $signal"; echo "exit $code"; cat /tmp/log /tmp/json; echo "---"
    state "left by $signal"
    /bigiron cpu online all
    state "again $signal"
done
"""
)

ISOLATED_SCRIPT = (
    COMMON
    + """
try list /bigiron cpu list --json
try node /bigiron cpu offline 4-7 --dry-run
try isolated /bigiron cpu offline 1-5 --dry-run
try refused /bigiron cpu offline 0-5
"""
)

# Targets of a kill: the command; its process group (the watchdog has its own session); or the command and the watchdog.
KILLS = (
    COMMON
    + """
settings >/tmp/before
same() { settings | cmp -s - /tmp/before; }
at_work() { # waits until settings are changed, as long as it takes to start a program
    tries=$1
    until [ -e /run/bigiron/cpu.journal ] || [ $tries = 0 ]; do
        usleep 5000
        tries=$((tries - 1))
    done
}
now() { cut -d' ' -f1 /proc/uptime | tr -d .; }
/bigiron cpu offline 1-7 >/tmp/log 2>&1 &
at_work 2000
begin=$(now)
wait
took=$((($(now) - begin) * 10000))
number=0
while [ $number -lt COUNT ]; do
    batch=; [ $((number % 2)) = 0 ] || batch=--batch
    words="offline 1-7"; [ "$(cat $C/online)" != 0 ] || words="online all"
    setsid /bigiron cpu $words $batch >/tmp/log 2>&1 &
    process=$!
    # Starting a program takes longest in the guest, so most kills wait for the journal. RANDOM is at most 32767.
    at_work $((number % 5 ? 2000 : 0))
    usleep $((RANDOM * (took / 100) / 400))
    watchdog=$(cat /proc/$process/task/$process/children 2>/dev/null)
    during=false; [ ! -e /run/bigiron/cpu.journal ] || during=true
    case $((number % 3)) in
        0) kill -9 $process ;;
        1) kill -9 -$process ;;
        2) kill -9 $watchdog $process ;;
    esac 2>/dev/null
    wait $process
    code=$?
    [ $((number % 3)) != 2 ] || /bigiron cpu restore >/tmp/restored 2>&1
    tries=0
    until same || [ $tries = 400 ]; do
        usleep 25000
        tries=$((tries + 1))
    done
    good=false; ! same || good=true
    say "{\\"kill\\": $number, \\"code\\": $code, \\"during\\": $during, \\"good\\": $good}"
    if [ $good = false ]; then settings; cat /tmp/log /tmp/restored; fi
    number=$((number + 1))
done
/bigiron cpu online all
state end
"""
)
KILLED = 137

# Number of domain rebuilds by the kernel, and their duration, while the threads of four cores go offline and come back.
FUNCTIONS = ("partition_sched_domains_locked", "build_sched_domains", "update_sched_domain_debugfs")
REBUILDS = (
    COMMON
    + """
T=/sys/kernel/tracing
for function in %s; do echo $function; done >$T/set_ftrace_filter
echo function_graph >$T/current_tracer
echo funcgraph-tail >$T/trace_options
trace() { # NAME COMMAND…
    name=$1
    shift
    echo >$T/trace
    "$@" >/dev/null 2>&1
    echo "--- $name"; grep ' us ' $T/trace; echo "---"
}
siblings() { for cpu in 7 5 3 1; do echo "$1" >$C/cpu$cpu/online; done; }
for run in 1 2 3; do
    trace "$run loop off" siblings 0
    trace "$run loop on" siblings 1
    trace "$run bigiron off" /bigiron cpu offline 1,3,5,7
    trace "$run bigiron on" /bigiron cpu online all
    trace "$run batch off" /bigiron cpu offline 1,3,5,7 --batch
    trace "$run batch on" /bigiron cpu online all --batch
done
"""
    % " ".join(FUNCTIONS)
)
RUNS = 3


def _guest(topology: Topology, series: str, bigiron: Path, script: str, line: str = "", seconds: float = 900) -> str:
    return guest.run_here(topology, series, {"bigiron": bigiron}, script, command_line=line, seconds=seconds)


class _Checks:
    """Expected and actual results."""

    def __init__(self, run: str) -> None:
        self._run, self._wrong, self._count = run, 0, 0

    def equal(self, what: str, found: object, expected: object) -> None:
        self._count += 1
        if found != expected:
            self._wrong += 1
            print(f"    {self._run}: {what}: found {found!r}, expected {expected!r}")

    def has(self, what: str, text: str, *parts: str) -> None:
        for part in parts:
            self._count += 1
            if part not in text:
                self._wrong += 1
                print(f"    {self._run}: {what}: no {part!r} in {text!r}")

    def record(self, detail: str = "") -> dict[str, Any]:
        found = f"{self._wrong} of {self._count} checks failed" if self._wrong else f"{self._count} checks"
        return {"run": self._run, "status": self._wrong, "detail": found + detail}


def _json(text: str) -> dict[str, Any]:
    return json.loads(next(line for line in text.splitlines() if line.startswith("{")))


def _cpus(text: str) -> set[int]:
    """Parses a list in the kernel's format."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _states(series: str, bigiron: Path) -> dict[str, Any]:
    console = _guest(MACHINE, series, bigiron, STATES)
    checks = _Checks(f"{series} equal states")

    def part(name: str) -> str:
        return guest.section(console, name).replace("\r", "")

    start = part("start")
    for way in ("bigiron", "batch"):
        for state in ("offline", "online", "smt off", "smt on"):
            checks.equal(f"{way} {state}", part(f"{way} {state}"), part(f"loop {state}"))
    for state in ("loop smt on", "dry", "refused", "bigiron smt on", "batch smt on", "again INT", "again TERM"):
        checks.equal(state, part(state), start)
    checks.equal("plain-off", part("plain-off"), part("loop smt off"))
    checks.has("dry-offline", part("dry-offline"), "offline in this order: 7 5 3 1 6 4 2\n", "exit 0", "sleep (")
    checks.has("dry-offline", part("dry-offline"), "rcu_expedited is 1 instead of 0", "verbose is N instead of Y")
    checks.has("dry-batch", part("dry-batch"), "write off to smt/control", "isolated cpuset partition")
    checks.equal("dry-json", _json(part("dry-json"))["plan"]["order"], [7, 5, 3, 1])
    checks.has("kept", part("kept"), "smt/control keeps hardware threads offline", "exit 1")
    checks.has("three", part("three"), "only `on` and `off`", "exit 1")
    checks.has("last", part("last"), "leaves none", "exit 1")
    checks.has("read-only", part("read-only"), "Read-only file system", "exit 1")
    # With both methods, the affinity of a task is kept if one of its CPUs is still online.
    checks.equal("tasks", part("bigiron tasks"), part("loop tasks"))
    for name, code in (("INT", 130), ("TERM", 143)):
        after = part(f"after {name}")
        checks.has(name, after, f"exit {code}\n", "interrupted: ")
        outcome = _json(after)["outcome"]
        done, left = _cpus(outcome["done"]), _cpus(outcome["left"])
        checks.equal(f"{name}: done and left", (done | left, done & left), (set(range(1, 8)), set()))
        checks.equal(f"{name}: online", _cpus(part(f"left by {name}").splitlines()[0]), left | {0})
    batch = " ".join(line.split(":")[1].strip() for line in part("batch tasks").splitlines())
    return checks.record(f"; affinities 7, 5-6, 0-7 are {batch} after --batch")


def _isolated(series: str, bigiron: Path) -> dict[str, Any]:
    console = _guest(ISOLATED, series, bigiron, ISOLATED_SCRIPT, ISOLATED_LINE)
    checks = _Checks(f"{series} isolated CPUs")
    told = _json(guest.section(console, "list"))
    checks.equal("list", (told["isolated"], told["nohz_full"], told["online"]), ("6-7", "5", "0-7"))
    checks.equal("nodes", [(row["node"], row["online"]) for row in told["rows"]], [(0, "0-3"), (1, "4-7")])
    checks.has("node", guest.section(console, "node"), "memory node 1 is left without an online CPU", "exit 0")
    checks.has("node", guest.section(console, "node"), "CPUs 6-7 are isolated", "CPUs 5 run without a tick")
    checks.has("isolated", guest.section(console, "isolated"), "offline in this order: ", "exit 0")
    checks.has("refused", guest.section(console, "refused"), "leaves 6-7, which are isolated", "exit 1")
    return checks.record()


def _kills(series: str, bigiron: Path, count: int) -> dict[str, Any]:
    console = _guest(MACHINE, series, bigiron, KILLS.replace("COUNT", str(count)), seconds=900 + 30 * count)
    checks = _Checks(f"{series} kills at random moments")
    kills = [record for record in guest.records(console) if "kill" in record]
    checks.equal("kills", len(kills), count)
    for kill in kills:
        checks.equal(f"kill {kill['kill']}", kill["good"], True)
    killed = [kill for kill in kills if kill["code"] == KILLED]
    during = sum(kill["during"] for kill in killed)
    checks.equal("kills while settings were changed", during >= count / 10, True)
    checks.has("end", guest.section(console, "end"), "0-7")
    if any(not kill["good"] for kill in kills):
        print(console[-6000:])
    return checks.record(f"; {len(killed)} of {count} were killed in time, {during} while settings were changed")


def _calls(text: str, function: str) -> list[float]:
    """Returns the duration of each call in microseconds, from the function-graph tracer."""
    found = re.findall(rf"([0-9.]+) us +\|.*\b{function}\b", text)
    return [float(one) for one in found]


def _rebuilds(series: str, bigiron: Path) -> dict[str, Any]:
    console = _guest(MACHINE, series, bigiron, REBUILDS)
    checks = _Checks(f"{series} rebuilds of domains")
    detail = []
    for way, builds in (("loop", 4), ("bigiron", 4), ("batch", 1)):
        for direction in ("off", "on"):
            parts = [guest.section(console, f"{run} {way} {direction}") for run in range(1, RUNS + 1)]
            counts = {len(_calls(part, "build_sched_domains")) for part in parts}
            checks.equal(f"{way} {direction}", counts, {builds})
            medians = [median(sum(_calls(part, function)) for part in parts) / 1000 for function in FUNCTIONS]
            detail.append(f"{way} {direction} " + "/".join(f"{one:.2f}" for one in medians))
    return checks.record(f"; ms in {', '.join(FUNCTIONS)}: {'; '.join(detail)}")


def run(bigiron: Path, series: str, full: bool) -> list[dict[str, Any]]:
    """Tests states, isolated CPUs, rebuilds, and kills (100, or 10 unless `full`)."""
    records = [part(series, bigiron) for part in (_states, _isolated, _rebuilds)]
    return [*records, _kills(series, bigiron, 100 if full else 10)]
