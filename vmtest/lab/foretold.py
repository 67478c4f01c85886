"""A guest that runs `bigiron plan`, crashes, and makes the dumps that were estimated."""

from pathlib import Path
from typing import Any

from verdict import Verdict

from .crash import Crashed, Plan, busy_plan
from .errors import LabError

# Largest difference of an estimate, as a part of what the dump has in the end.
SIZE_ERROR = 0.15
TIME_ERROR = 0.30
# Times below this are those of the start of a program, not of a dump.
SHORTEST = 0.2


def plan(ram_mib: int, planner: Path) -> Plan:
    """Returns the plan of a guest that runs `planner` before it crashes."""
    return busy_plan("plan", ram_mib, before="before-plan", first_programs={"plan": planner})


def judge(crashed: Crashed) -> tuple[Verdict, str]:
    """Compares each estimate with its dump; returns the verdict and a table."""
    verdict = Verdict("plan")
    told = next((record["plan"] for record in crashed.records if "plan" in record), None)
    if told is None:
        raise LabError(f"the guest made no plan\n{crashed.tail()}")
    _judge_checks(told, verdict)
    lines = [f"{'dump':28} {'size: told':>12} {'made':>12} {'':>6} {'time: told':>10} {'made':>6}"]
    for estimate in (told["estimates"] or {"dumps": []})["dumps"]:
        codec = estimate["compression"].partition(":")[0]
        name = f"dump -d {estimate['dump_level']} -f {estimate['format']} -c {codec}"
        ran = crashed.ran(name)
        size = next((record["size"] for record in crashed.records if record.get("of") == name), 0)
        if not verdict.require(ran.get("status") == 0 and size > 0, f"{name}: was not made\n{crashed.tail()}"):
            continue
        seconds = ran["summary"]["seconds"]
        wrong = estimate["bytes"] / size - 1
        verdict.require(abs(wrong) <= SIZE_ERROR, f"{name}: size {wrong:+.0%}")
        late = estimate["seconds"] / seconds - 1
        is_short = max(seconds, estimate["seconds"]) < SHORTEST
        verdict.require(is_short or abs(late) <= TIME_ERROR, f"{name}: time {late:+.0%}")
        lines.append(
            f"{name:28} {estimate['bytes']:12} {size:12} {wrong:+6.1%} {estimate['seconds']:10.2f} {seconds:6.2f} {late:+6.0%}"
        )
    verdict.require(len(lines) == 7, f"{len(lines) - 1} of 6 dumps")
    return verdict, "\n".join(lines)


def _judge_checks(told: dict[str, Any], verdict: Verdict) -> None:
    """Judges lines whose verdicts are known for this guest."""
    found = {line["name"]: line["verdict"] for line in told["checks"]}
    # The guest has a capture kernel and a disk with room, but no settings of a distribution.
    for name, wanted in {"capture_kernel": "ok", "crashkernel": "ok", "directory": "ok", "initramfs": "note"}.items():
        verdict.require(found.get(name) == wanted, f"{name}: {found.get(name)}, not {wanted}")
