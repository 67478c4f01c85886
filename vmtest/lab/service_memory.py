"""Finds the least memory of a capture kernel that dumps into memory with the smallest initramfs."""

from pathlib import Path

from .errors import LabError
from .service import Plan, Serviced

RAM_MIB = 4096
SIZES = (256, 208, 192, 176, 160, 144, 128, 112, 104, 96, 88, 80, 72, 64)  # MiB
WAYS = {
    "a dump, then a reset": "-d 31 -f vmdump",
    "a dump, then the production kernel by kexec": "-d 31 -f vmdump --then-boot auto",
}


def attempt(crashkernel: int, dump: str, series: str, program: Path) -> str:
    """Returns one line of the table; raises an error if there is no dump, or no production kernel after it."""
    plan = Plan("smallest", series, RAM_MIB, f"{crashkernel}M", cached_mib=96, image=dump, timeout=120)
    with Serviced(plan, program) as ran:
        production = any(mark == "service-2" for mark, _ in ran.events)
        done = production if "--then-boot" in dump else ran.printed("the dump is on /dev/pmem0; rebooting")
        if not done:
            raise LabError(ran.tail())
    return f"{crashkernel:11}"


def table(dump: str, series: str, program: Path) -> str:
    """Returns a table of decreasing sizes in MiB, down to the first that fails."""
    lines = [f"{'crashkernel':11}   (MiB)"]
    for size in SIZES:
        try:
            lines.append(attempt(size, dump, series, program))
        except LabError as error:
            last = str(error).splitlines()
            lines.append(f"{size:11} no dump: {last[-1] if last else ''}")
            break
    return "\n".join(lines)
