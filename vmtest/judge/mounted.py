#!/usr/bin/env python3
"""Judges whether other programs read the same data from a mounted dump as from the vmcore itself.

crash, drgn and gdb open the mount's core, for any format of the dump. The mount's scheduling domains are compared with
drgn's walk of the kernel's own structures.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import crash_text
import drgn_tasks
import peers_venv
from tools import Bigiron, ToolFailed
from verdict import CannotJudge, Verdict

SECONDS = 900
NUMBERS = ("level", "min_interval", "max_interval", "busy_factor", "imbalance_pct", "cache_nice_tries",
           "max_newidle_lb_cost")


@contextmanager
def mounted(bigiron: Bigiron, *dump: Path) -> Iterator[Path]:
    """Yields a directory with the files of a dump."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise CannotJudge("no access to /dev/fuse")
    with tempfile.TemporaryDirectory(prefix="bigiron-mounted-") as directory:
        command = [str(bigiron.program), "mount", *map(str, dump), directory]
        served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            if "is mounted on" not in served.stdout.readline():
                raise ToolFailed(f"{' '.join(command)}: {served.stderr.read().strip()}")
            yield Path(directory)
            served.send_signal(signal.SIGINT)
            output = served.communicate(timeout=SECONDS)[1]
            if served.returncode != 0 or output:
                raise ToolFailed(f"{' '.join(command)}: exit {served.returncode}: {output.strip()}")
            if os.path.ismount(directory):
                raise ToolFailed(f"{directory} is still mounted")
        finally:
            served.kill()
            served.wait()
            subprocess.run(["umount", "-l", directory], capture_output=True, check=False)


def judge_gdb(banner: int, core: Path) -> Verdict:
    """Judges that gdb recognizes the core's notes as the CPUs' registers, and reads its memory at the kernel's
    addresses."""
    if not shutil.which("gdb"):
        raise CannotJudge("gdb is not installed")
    verdict = Verdict("gdb")
    # Without vmlinux, so all output comes from the core.
    command = ["gdb", "-nx", "-batch", "-ex", "info threads", "-ex", f"x/s {banner:#x}", "-c", str(core)]
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    output = ended.stdout + ended.stderr
    verdict.require(ended.returncode == 0, f"gdb ends with {ended.returncode}: {output[-200:]}")
    verdict.require("not a core dump" not in output and "not in executable format" not in output, f"gdb: {output[-200:]}")
    verdict.require("Linux version" in output, f"no banner: {output[-200:]}")
    verdict.require("* 1" in output, f"no thread: {output[-200:]}")
    return verdict


def flags_by_drgn(program: Any, flags: int, known: dict[int, str]) -> str:
    """Returns flags in the format of the kernel's debugfs."""
    return "".join(f"{known[bit]} " for bit in sorted(known) if flags & bit) + "\n"


def domains_by_drgn(vmlinux: str | Path, dump: str | Path) -> dict[str, str]:
    """Returns each file under sched/domains and its text, from the kernel's own structures."""
    import drgn
    from drgn.helpers.linux import for_each_possible_cpu, per_cpu

    program = drgn.Program()
    program.set_core_dump(str(dump))
    program.load_debug_info([str(vmlinux)])
    prefix = "__SD_"
    bits = next(value for value in program["__SD_FLAG_CNT"].type_.enumerators if value.name == "__SD_FLAG_CNT").value
    numbered = [value for value in program["__SD_FLAG_CNT"].type_.enumerators if value.name.startswith(prefix)]
    known = {1 << value.value: value.name[2:] for value in numbered if value.value < bits}
    ids = program["nr_cpu_ids"].value_()
    files: dict[str, str] = {}
    for cpu in for_each_possible_cpu(program):
        domain, number = per_cpu(program["runqueues"], cpu).sd, 0
        while domain:
            place = f"cpu{cpu}/domain{number}"
            files[f"{place}/name"] = domain.name.string_().decode() + "\n"
            files[f"{place}/flags"] = flags_by_drgn(program, domain.flags.value_(), known)
            files[f"{place}/groups_flags"] = flags_by_drgn(program, domain.groups.flags.value_(), known)
            for name in NUMBERS:
                files[f"{place}/{name}"] = f"{domain.member_(name).value_()}\n"
            mask = program.read(domain.value_() + drgn.sizeof(domain[0]), (ids + 63) // 64 * 8)
            if "span" in {member.name for member in domain.type_.type.members}:
                mask = program.read(domain.span.address_of_().value_(), (ids + 63) // 64 * 8)
            span = [n for n in range(ids) if mask[n // 8] >> n % 8 & 1]
            files[f"{place}/span"] = cpu_list(span) + "\n"
            domain, number = domain.parent, number + 1
    return files


def cpu_list(cpus: list[int]) -> str:
    """Returns a CPU list such as 0-3,8, in the kernel's format."""
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def judge_domains(vmlinux: str | Path, root: Path, vmcore: str | Path) -> Verdict:
    """Judges that the mounted files of scheduling domains match drgn's data."""
    verdict = Verdict("scheduling domains")
    top = root / "sched" / "domains"
    ours = {str(path.relative_to(top)): path.read_text() for path in top.rglob("*") if path.is_file()}
    theirs = domains_by_drgn(vmlinux, vmcore)
    for name in sorted(ours.keys() | theirs.keys()):
        found, wanted = ours.get(name), theirs.get(name)
        verdict.require(found == wanted, f"{name}: {found!r}, drgn {wanted!r}")
        verdict.count("files of domains")
    return verdict


def judge_texts(bigiron: Bigiron, root: Path, dump: list[Path]) -> Verdict:
    """Judges that dmesg and info.json match the output of the commands."""
    verdict = Verdict("texts")
    for name, command in (("dmesg", ["dmesg"]), ("info.json", ["info", "--json"])):
        output = subprocess.run([str(bigiron.program), *command, *map(str, dump)], capture_output=True, check=False).stdout
        verdict.require((root / name).read_bytes() == output, f"{name} differs from the output of `bigiron {' '.join(command)}`")
    return verdict


def judge(
    bigiron: Bigiron, vmlinux: str | Path, dump: list[Path], vmcore: Path, by_crash: Callable[[Path], Verdict]
) -> Verdict:
    """Runs all checks on a dump in one file or several; `by_crash` judges its core by crash."""
    verdict = Verdict("mounted")
    with mounted(bigiron, *dump) as root:
        core = root / "vmcore"
        verdict.merge(judge_texts(bigiron, root, dump))
        verdict.merge(drgn_tasks.judge(vmlinux, core, vmcore))
        verdict.merge(judge_domains(vmlinux, root, vmcore))
        symbol, = bigiron.named("sym", core, ("linux_banner",))
        for check in (lambda: judge_gdb(int(symbol["address"], 16), core), lambda: by_crash(core)):
            try:
                verdict.merge(check())
            except CannotJudge as reason:
                verdict.note(str(reason))
    return verdict


def main() -> int:
    peers_venv.run_inside()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bigiron", type=Path)
    parser.add_argument("vmlinux", help="with debug symbols, of the dump's kernel")
    parser.add_argument("dump", type=Path)
    parser.add_argument("vmcore", type=Path, help="source of the dump")
    arguments = parser.parse_args()

    def by_crash(core: Path) -> Verdict:
        return crash_text.judge(arguments.vmlinux, str(core), str(arguments.vmcore))

    bigiron = Bigiron(arguments.bigiron)
    try:
        return judge(bigiron, arguments.vmlinux, [arguments.dump], arguments.vmcore, by_crash).finish()
    except CannotJudge as error:
        return error.finish()


if __name__ == "__main__":
    sys.exit(main())
