"""Measures the time from panic to a service that answers, by four ways, in one guest that crashes once for each."""

import shutil
import socket
import statistics
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import LabError, Unavailable
from .service import Plan, Serviced

# In the order of the table; each round begins with another one.
WAYS = {
    "makedumpfile": "makedumpfile to disk, firmware",
    "disk": "bigiron to disk, firmware",
    "kexec": "bigiron to disk, kexec",
    "memory": "bigiron to memory, kexec",
}
# Each stage lasts from the end of the one before.
STAGES = ("capture kernel", "dump", "firmware or kexec, kernel", "service")
TARGET = 5  # the last way is so many times as fast as the first
FIRMWARE_SECONDS = 60
DISK_RATE = 100_000_000
RAM_MIB = 2048
CACHED_MIB = 192
KEPT = "memmap=192M!0x28000000"


class Answers:
    """Asks the guest's HTTP server all the time, and notes when each boot answers first."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.first: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> "Answers":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._stop.wait(0.05):
            try:
                # QEMU accepts the connection whether the guest answers or not.
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/cgi-bin/boot", timeout=0.5) as answer:
                    self.first.setdefault(int(answer.read()), time.monotonic())
            except (OSError, ValueError):
                continue


def plan(order: Sequence[str], series: str, port: int) -> Plan:
    """Returns the plan of a guest that crashes once for each way."""
    makedumpfile = shutil.which("makedumpfile")
    if not makedumpfile:
        raise Unavailable("makedumpfile is not installed. Install with: apt-get install makedumpfile")
    return Plan(
        "ways",
        series=series,
        ram_mib=RAM_MIB,
        crashkernel="320M",
        cached_mib=CACHED_MIB,
        kept=KEPT,
        capture_kept=KEPT,
        drive=f"cache=unsafe,throttling.bps-total={DISK_RATE}",
        words=f"quiet vmtest.ways={','.join(order)}",
        capture_words="quiet",
        modules=("failover", "net_failover", "virtio_net"),
        small={"makedumpfile": Path(makedumpfile)},
        devices=(
            # The firmware waits for a key of its boot menu, in each start of the machine.
            "-boot", f"menu=on,splash-time={FIRMWARE_SECONDS * 1000}",
            "-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:80",
            "-device", "virtio-net-pci,netdev=net,romfile=",
        ),
        reboots=True,
        timeout=1500,
    )  # fmt: skip


class Ways(Serviced):
    """A guest that crashed once for each way, and the times of its stages."""

    def _seen(self, line: str) -> None:
        super()._seen(line)
        if "starting Linux" in line and "directly" in line:
            self.events.append(("dumped", time.monotonic()))
        if "so reboot" in line:
            raise LabError(f"the production kernel was not started directly\n{self.tail()}")

    def stages(self, boot: int, answered: float) -> list[float]:
        """Returns the seconds of each stage from the panic of the boot before to the answer of this one."""
        wanted = (f"panic-{boot - 1}", "capture-init", "dumped", f"service-{boot}")
        names = [name for name, _ in self.events]
        try:
            times = dict(self.events[names.index(wanted[0]) : names.index(f"http-{boot}")])
            ends = [times[name] for name in wanted] + [answered]
        except (ValueError, KeyError) as missing:
            # A kernel message can interrupt the line of a mark.
            raise LabError(f"boot {boot}: a mark is missing: {missing}") from missing
        return [after - before for before, after in zip(ends, ends[1:])]


def one_round(order: Sequence[str], series: str, program: Path, accel: str) -> dict[str, dict[str, object]]:
    """Runs a guest by all ways, and returns for each the seconds of its stages and the size of its dump."""
    with Answers() as answers, Ways(plan(order, series, answers.port), program, accel) as guest:
        if missing := set(range(2, len(order) + 2)) - set(answers.first):
            raise LabError(f"no answer of the boots {missing}\n{guest.tail()}")
        marks = {mark for mark, _ in guest.events}
        for boot, way in enumerate(order, 2):
            if (f"direct-{boot}" in marks) != (way in ("kexec", "memory")):
                raise LabError(f"the boot after the way {way} is not the expected one\n{guest.tail()}")
        save = guest.ran("save")
        if (save.get("summary") or {}).get("complete") is not True:
            raise LabError(f"the dump in memory was not saved: {save}\n{guest.tail()}")
        return {
            way: {
                "stages": guest.stages(boot, answers.first[boot]),
                "bytes": guest.saved("vmdump.0" if way == "memory" else way).stat().st_size,
            }
            for boot, way in enumerate(order, 2)
        }


def order(number: int) -> list[str]:
    """Returns the ways in the order of a round."""
    names, first = list(WAYS), number % len(WAYS)
    return names[first:] + names[:first]


def medians(rounds: Sequence[dict[str, dict[str, Any]]]) -> dict[str, list[float]]:
    """Returns for each way the medians of its stages, and of their sum."""
    runs = {way: [one[way]["stages"] for one in rounds] for way in WAYS}
    return {
        way: [statistics.median(column) for column in zip(*([*stages, sum(stages)] for stages in all_stages))]
        for way, all_stages in runs.items()
    }


def table(middle: dict[str, list[float]]) -> str:
    """Returns the medians as text."""
    lines = [f"{'seconds':32}" + "".join(f"{name:>27}" for name in (*STAGES, "panic to service"))]
    lines += [f"{WAYS[way]:32}" + "".join(f"{seconds:27.1f}" for seconds in row) for way, row in middle.items()]
    return "\n".join([*lines, f"the last is {ratio(middle):.1f} times as fast as the first"])


def ratio(middle: dict[str, list[float]]) -> float:
    """Returns how many times as fast the last way is as the first."""
    return middle["makedumpfile"][-1] / middle["memory"][-1]


def picture(middle: dict[str, list[float]], rounds: int, accel: str, kernel: str) -> dict[str, Any]:
    """Returns the description of the picture that `bigiron-bench bars` draws."""
    return {
        "title": "From panic to a service that answers, in seconds",
        "subtitle": f"A guest of {RAM_MIB >> 10} GiB ({accel.upper()}, Linux {kernel}), disk {DISK_RATE // 10**6} MB/s, "
        f"firmware {FIRMWARE_SECONDS} s, dump level 31; medians of {rounds}",
        "parts": list(STAGES),
        "bars": [{"name": WAYS[way], "values": row[:-1]} for way, row in middle.items()],
    }
