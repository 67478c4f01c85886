"""Finds the least memory with which a capture kernel can make its dump."""

from pathlib import Path

from .crash import Crashed, Disk, Plan
from .errors import LabError

SIZES = (128, 112, 104, 96, 88, 80, 72, 64)  # MiB
RAM_MIB = 4096


def attempt(crashkernel: int, program: Path) -> str:
    """Returns one line of the table; raises an error if there is no dump."""
    plan = Plan(
        "ext4",
        disks=(Disk(256, "ext4"),),
        ram_mib=RAM_MIB,
        crashkernel=f"{crashkernel}M",
        cached_mib=96,
        capture_words="nr_cpus=2",
        timeout=120,
    )
    with Crashed(plan, program) as crashed:
        summary = crashed.ran("dump").get("summary")
        if not summary:
            raise LabError(crashed.tail())
        memory = next(record for record in crashed.records if "memory_kib" in record)
        peak = summary["peak_memory"]
        return (
            f"{crashkernel:11} {memory['memory_kib'] >> 10:6} {memory['available_kib'] >> 10:6} "
            f"{summary['helpers']:8} {peak / (1 << 20):9.1f}"
        )


def table(program: Path) -> str:
    """Returns a table of decreasing sizes in MiB, down to the first that fails."""
    lines = [f"{'crashkernel':11} {'total':>6} {'free':>6} {'helpers':>8} {'peak RSS':>9}   (MiB)"]
    for size in SIZES:
        try:
            lines.append(attempt(size, program))
        except LabError as error:
            last = str(error).splitlines()
            lines.append(f"{size:11} no dump: {last[-1] if last else ''}")
            break
    return "\n".join(lines)
