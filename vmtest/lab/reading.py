"""Compares the speed of mmap and read on /proc/vmcore in a capture kernel, with one processor and with several."""

from pathlib import Path

from .crash import Crashed, Plan
from .errors import LabError
from .qemu import accelerator

LEVELS = 4


def plan(cpus: int, ram_mib: int, runs: int) -> Plan:
    """Returns the plan of a guest whose capture kernel has this number of processors."""
    return Plan(
        "bench",
        levels=LEVELS,
        ram_mib=ram_mib,
        crashkernel="256M",
        cached_mib=ram_mib // 4,
        cpus=cpus,
        capture_words=f"nr_cpus={cpus}",
        environment={"runs": str(runs)},
        timeout=900,
    )


def tables(cpus: int, ram_mib: int, runs: int, program: Path) -> str:
    """Returns the output of `bigiron bench vmcore` in the capture kernel."""
    with Crashed(plan(cpus, ram_mib, runs), program) as crashed:
        if crashed.ran("bench").get("status") != 0:
            raise LabError(f"bigiron bench vmcore failed\n{crashed.tail()}")
        lines = [line.removeprefix("bench: ") for _, line in crashed.lines if line.startswith("bench: ")]
    if accelerator(LEVELS) == "tcg":
        lines.append("The guest's processors are emulated: compare ways to read with these figures, not machines.")
    return "\n".join(lines)
