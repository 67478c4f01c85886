"""The results of `vmtest/cpus measure`: tables, and a comparison with the targets."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

REBUILD = "partition_sched_domains_locked"
# Targets: the maximum slowdown by a mount, and the expected slowdown by the kernel's own debugfs files in 6.1.
MOUNT = 1.01
EXPORT = 4.0
COLUMNS = (
    ("one CPU", ("_cpu_down", "_cpu_up")),
    ("rebuild", (REBUILD,)),
    ("build", ("build_sched_domains",)),
    ("show", ("update_sched_domain_debugfs",)),
    ("stop", ("stop_machine_cpuslocked",)),
    ("RCU", ("synchronize_rcu",)),
)

Row = dict[str, Any]


def _function(row: Row, names: Sequence[str]) -> Row | None:
    return next((row["functions"][name] for name in names if name in row["functions"]), None)


def tables(boots: Sequence[Row]) -> Iterator[str]:
    """Yields lines of text: medians for each guest in milliseconds, and the seconds of the whole operation."""
    for boot in boots:
        yield f"\n{boot['kernel']}, {boot['boot']} ({boot['command_line']}): {boot['cpus']} of {boot['smp'].partition(',')[0]} CPUs"
        heads = "".join(f"{name:>9}" for name, _ in COLUMNS)
        yield f"{'shown':8}{'how':12}{'way':6}{'seconds':>9}{'around':>9}{heads}"
        for row in boot["rows"]:
            cells = [statistics.median(row["seconds"]), statistics.median(row["around"])]
            cells += [found["ms"]["median"] if (found := _function(row, names)) else None for _, names in COLUMNS]
            text = "".join(f"{'-' if cell is None else f'{cell:.2f}':>9}" for cell in cells)
            yield f"{row['shown']:8}{row['how']:12}{row['way']:6}{text}"


def _rows(boot: Row) -> dict[tuple[str, str, str], Row]:
    return {(row["shown"], row["how"], row["way"]): row for row in boot["rows"]}


def _ratio(many: Sequence[float], few: Sequence[float]) -> tuple[float, float, float]:
    """Returns the median of the ratios of consecutive rounds, and the range of their middle half."""
    ratios = [a / b for a, b in zip(many, few) if b]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
    return middle, low, high


def _line(good: bool, what: str, ratio: tuple[float, float, float], aim: str) -> tuple[bool, str]:
    middle, low, high = ratio
    return good, f"{'reached  ' if good else 'NOT      '}{what}: {middle:.3f} ({low:.3f} to {high:.3f}), target {aim}"


def targets(boots: Sequence[Row]) -> Iterator[tuple[bool, str]]:
    """Yields for each target a flag, true if it is reached, and a line of text."""
    quiet: dict[str, dict[tuple[str, str, str], Row]] = {}
    for boot in boots:
        rows = _rows(boot)
        for way in ("down", "up"):
            none = rows.get(("none", "loop", way))
            if none is None or "ways" in boot["boot"]:
                continue
            quiet[boot["kernel"]] = rows
            # Variation between rounds of the same kind.
            halves = _ratio(none["functions"][REBUILD]["medians"][1:], none["functions"][REBUILD]["medians"])
            yield True, f"         {boot['kernel']} {way}: variation of {REBUILD}: {halves[1]:.3f} to {halves[2]:.3f}"
            for shown in ("mount", "file", "read"):
                row = rows.get((shown, "loop", way))
                if row is None:
                    continue
                medians = _ratio(row["functions"][REBUILD]["medians"], none["functions"][REBUILD]["medians"])
                yield _line(medians[0] <= MOUNT, f"{boot['kernel']} {way}: {REBUILD}, {shown}", medians, f"at most {MOUNT}")
                whole = _ratio(row["seconds"], none["seconds"])
                yield _line(whole[0] <= MOUNT, f"{boot['kernel']} {way}: whole operation, {shown}", whole, f"at most {MOUNT}")
    for boot in boots:
        rows = _rows(boot)
        for way in ("down", "up"):
            export = rows.get(("export", "loop", way))
            none = quiet.get(boot["kernel"], {}).get(("none", "loop", way))
            if export and none and "ways" not in boot["boot"]:
                ratio = _ratio(export["functions"][REBUILD]["medians"], none["functions"][REBUILD]["medians"])
                aim = f"at least {EXPORT}" if boot["kernel"].startswith("6.1.") else "none"
                good = ratio[0] >= EXPORT or aim == "none"
                yield _line(good, f"{boot['kernel']} {way}: {REBUILD}, the kernel's own files", ratio, aim)
        for shown in ("none", "export"):
            loop, smt = (rows.get((shown, how, "down")) for how in ("loop", "bigiron_smt"))
            if loop and smt and "ways" in boot["boot"]:
                ratio = _ratio(smt["seconds"], loop["seconds"])
                yield _line(ratio[0] <= 1, f"{boot['kernel']} smt off by bigiron, relative to a loop", ratio, "at most 1")
