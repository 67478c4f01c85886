#!/usr/bin/env python3
"""Judges whether `bigiron info` reports the same about a dump as drgn with debug symbols."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import by_symbols
from tools import Bigiron
from verdict import Verdict



def kernel_calls(calls: list[str]) -> list[str]:
    """Returns the calls from panic() out to the entry into the kernel. Each program names assembler symbols by its own
    rule."""
    entry = next((index for index, call in enumerate(calls) if call.startswith("entry_")), len(calls))
    return calls[calls.index("panic") : entry]


def by_drgn(vmlinux: str | Path, dump: str | Path) -> dict[str, Any]:
    """Returns the facts from the kernel's own structures."""
    import drgn
    from drgn.helpers.linux import for_each_online_cpu

    program = drgn.Program()
    program.set_core_dump(str(dump))
    program.load_debug_info([str(vmlinux)])
    names = program["init_uts_ns"].name
    facts: dict[str, Any] = {
        name: getattr(names, field).string_().decode()
        for name, field in (("release", "release"), ("version", "version"), ("host", "nodename"))
    }
    facts["build_id"] = program.main_module().build_id.hex()
    facts["cpus"] = len(list(for_each_online_cpu(program)))
    if program["panic_cpu"].counter.value_() in (-1, 0xFFFFFFFF):
        return facts
    thread = program.crashed_thread()
    facts["pid"] = thread.tid
    facts["command"] = thread.object.comm.string_().decode()
    facts["cpu"] = program["panic_cpu"].counter.value_()
    facts["trace"] = kernel_calls([frame.name for frame in thread.stack_trace() if not frame.is_inline])
    return facts


def by_bigiron(bigiron: Bigiron, dump: Path) -> dict[str, Any]:
    """Returns the same facts from `bigiron info`."""
    output = bigiron.info(dump)
    kernel = output["kernel"]
    facts = {name: kernel[name] for name in ("release", "version", "host", "build_id")}
    facts["cpus"] = output["cpus"]
    panic = output["crash"].get("panic")
    if panic:
        facts |= {name: panic[name] for name in ("pid", "command", "cpu")}
        sure = (call for call in panic["trace"] if not call.startswith("?"))
        facts["trace"] = kernel_calls([re.sub(r"(\.cold)?\+0x.*", "", call) for call in sure])
    return facts


def judge(bigiron: Bigiron, vmlinux: str | Path, dump: str | Path, openable: str | Path) -> Verdict:
    """Compares bigiron's output for `dump` with drgn's for `openable`, the same memory."""
    verdict = Verdict("info")
    ours, theirs = by_bigiron(bigiron, Path(dump)), by_drgn(vmlinux, openable)
    verdict.require(ours.keys() == theirs.keys(), f"facts: ours {sorted(ours)}, drgn {sorted(theirs)}")
    for name in ours.keys() & theirs.keys():
        verdict.require(ours[name] == theirs[name], f"{name}: ours {ours[name]!r}, drgn {theirs[name]!r}")
    return verdict


if __name__ == "__main__":
    sys.exit(by_symbols.main(__doc__, judge))
