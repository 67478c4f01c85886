"""Ways to crash a kernel, and the title that each must have, whatever it is called from.

Titles that follow from a convention of the rules, such as the entry of a recursion, are what the rules make of them.
Functions of the module are in guest-faults/.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import faults
from .errors import LabError
from .fault_cases import SLAB_CHECKS, Case

WARNINGS = "sysctl.kernel.panic_on_warn=1"
HUNG = "sysctl.kernel.hung_task_panic=1 sysctl.kernel.hung_task_timeout_secs=6 sysctl.kernel.hung_task_check_interval_secs=3"
LOCKUPS = "softlockup_panic=1 watchdog_thresh=4"
STALLS = "sysctl.kernel.panic_on_rcu_stall=1 rcupdate.rcu_cpu_stall_timeout=5"
CALLERS = ("thread", "init", "file")
# Of a recursion and of a loop, the rules blame what the kernel entered first.
ENTRIES = {"thread": "by_thread", "init": "finit_module", "file": "proc_reg_write"}


@dataclass(frozen=True)
class Way:
    """A situation that ends in a panic, and its title."""

    name: str
    title: str
    command_line: str = ""
    # For what stands for {entry} in the title, by caller.
    entries: Mapping[str, str] = field(default_factory=dict)
    # No function can be blamed, so that there is no fingerprint.
    is_corrupted: bool = False

    def title_by(self, caller: str) -> str:
        return self.title.format(entry=self.entries.get(caller))

    def case(self) -> Case:
        return Case(self.name, "", command_line=self.command_line, settle=1, panics=True)


WAYS = {
    way.name: way
    for way in (
        Way("null-pointer", "BUG: unable to handle kernel NULL pointer dereference in use"),
        Way("use-after-free", "general protection fault in use", SLAB_CHECKS),
        Way("list-corruption", "BUG: corrupted list in list_corruption"),
        Way("flipped-bit", "BUG: unable to handle kernel paging request in use"),
        Way("stack-overflow", "BUG: stack guard page was hit in {entry}", entries=ENTRIES),
        Way("bug", "kernel BUG in bug"),
        Way("slab-leak", "kernel panic: System is deadlocked on memory", "sysctl.vm.panic_on_oom=0"),
        Way("divide-error", "divide error in divide_by_zero"),
        Way("invalid-opcode", "invalid opcode in execute_nonsense"),
        Way("general-protection", "general protection fault in read_non_canonical"),
        Way("wild-pointer", "BUG: unable to handle kernel paging request in read_unmapped"),
        Way("write-constant", "BUG: unable to handle kernel paging request in write_constant"),
        Way("execute-data", "BUG: unable to handle kernel paging request in data", is_corrupted=True),
        Way("call-null", "BUG: unable to handle kernel NULL pointer dereference in call_null"),
        Way("past-area", "BUG: unable to handle kernel paging request in read_past_area"),
        Way("warning", "WARNING in warn", WARNINGS),
        Way("refcount", "WARNING: refcount bug in put_too_often", WARNINGS),
        Way("panic", "kernel panic: faults: nothing helps on device NUM"),
        Way("sleep-with-lock", "BUG: scheduling while atomic in sleep_with_lock", WARNINGS),
        Way("take-twice", "BUG: soft lockup in {entry}", LOCKUPS, ENTRIES),
        Way("soft-lockup", "BUG: soft lockup in loop", LOCKUPS),
        Way("rcu-reader", "INFO: rcu detected stall in read_rcu_and_spin", STALLS),
        Way("sleeping-owner", "INFO: task hung in sleep_forever", HUNG),
        Way("completion", "INFO: task hung in wait_completion", HUNG),
    )
}


@dataclass(frozen=True)
class Crash:
    """What a dump says of its crash."""

    way: str
    series: str
    caller: str
    title: str | None
    fingerprint: str | None


def crash(way: Way, series: str, caller: str, bigiron: Path) -> Crash:
    """Makes a dump, and returns its title and fingerprint. The dump is not kept."""
    made = faults.dump(way.case(), series, caller)
    try:
        ended = subprocess.run([bigiron, "info", "--json", made / "vmcore"], capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise LabError(f"bigiron info: {ended.stderr.strip()}")
        found = json.loads(ended.stdout)["signature"] or {}
    finally:
        shutil.rmtree(made)
    return Crash(way.name, series, caller, found.get("title"), found.get("fingerprint"))


def differences(crashes: Sequence[Crash]) -> list[str]:
    """Returns what is wrong: titles that are not the expected ones, fingerprints that differ within a way, and those that
    two ways have in common though their titles differ."""
    wrong = [
        f"{one.way} by {one.caller} on {one.series}: {one.title}, not {WAYS[one.way].title_by(one.caller)}"
        for one in crashes
        if one.title != WAYS[one.way].title_by(one.caller)
    ]
    owners: dict[str | None, set[str]] = {}
    for name in dict.fromkeys(one.way for one in crashes):
        prints = {one.fingerprint for one in crashes if one.way == name}
        if WAYS[name].is_corrupted:
            if prints != {None}:
                wrong.append(f"{name}: it has a fingerprint")
            continue
        if len(prints) != len(set(WAYS[name].entries) or {None}) or None in prints:
            wrong.append(f"{name}: its dumps have {len(prints)} fingerprints, or none")
        for print_ in prints:
            owners.setdefault(print_, set()).add(name)
    wrong += [
        f"{' and '.join(sorted(names))} have one fingerprint"
        for names in owners.values()
        if len({WAYS[name].title for name in names}) > 1
    ]
    return wrong
