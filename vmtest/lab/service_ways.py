"""Measures the time from panic to service by four ways, in turns."""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

from .errors import LabError
from .service import Plan, Serviced
from .stages import with_libraries

FIRMWARE = 60.0
DISK_RATE = 100_000_000
# Way of guest-service/scenarios/way.sh, and its name.
WAYS = {
    "makedumpfile": "makedumpfile to disk, firmware",
    "disk": "bigiron to disk, firmware",
    "kexec": "bigiron to disk, kexec",
    "memory": "bigiron to memory, kexec",
}


def _plan(way: str, ram_mib: int) -> Plan:
    plan = Plan(
        "way",
        ram_mib=ram_mib,
        cached_mib=ram_mib // 4,
        kept="memmap=256M!0x20000000",
        capture_kept="memmap=256M!0x20000000",
        drive=f"cache=unsafe,throttling.bps-total={DISK_RATE}",
        firmware=FIRMWARE,
        environment={"way": way},
    )
    return replace(plan, files=with_libraries("makedumpfile")) if way == "makedumpfile" else plan


def measure(rounds: int, ram_mib: int, program: Path) -> list[dict[str, Any]]:
    """Returns a row for each run."""
    rows = []
    for number in range(rounds):
        for way in WAYS:
            with Serviced(_plan(way, ram_mib), program) as ran:
                marks = ran.marks
                if "answers-2" not in marks:
                    raise LabError(f"{way}: the service did not come back\n{ran.tail()}")
                began = marks["panic-1"]
                row = {
                    "round": number,
                    "way": way,
                    "capture": marks["capture-init"] - began,
                    "dump_and_boot": marks["answers-2"] - marks["capture-init"],
                    "service": marks["answers-2"] - began,
                }
                if "saved" in marks:
                    summary = ran.ran("save").get("summary") or {}
                    if summary.get("complete") is not True:
                        raise LabError(f"{way}: the dump was not saved\n{ran.tail()}")
                    row |= {"saved_after": marks["saved"] - marks["answers-2"], "bytes": summary.get("bytes")}
                rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Returns the medians as text."""
    lines = [f"{'way':32} {'capture kernel':>14} {'panic to service':>17}   runs"]
    for way, name in WAYS.items():
        of_way = [row for row in rows if row["way"] == way]
        capture, service = (statistics.median(row[key] for row in of_way) for key in ("capture", "service"))
        times = " ".join(f"{row['service']:.1f}" for row in of_way)
        lines.append(f"{name:32} {capture:12.1f} s {service:15.1f} s   {times}")
    medians = {way: statistics.median(row["service"] for row in rows if row["way"] == way) for way in WAYS}
    lines.append(f"to memory: {medians['makedumpfile'] / medians['memory']:.1f} times as fast as makedumpfile to disk")
    return "\n".join(lines)
