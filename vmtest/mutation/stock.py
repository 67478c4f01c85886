"""Makes the unchanged dumps of all formats."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from lab.errors import LabError

from . import bases, formats, limited, memory
from .case import Stock
from .commands import Input, dump_to_elf
from .formats import Format

ALIASES = ("makedumpfile", "vmcore-dmesg")


def _pages(one: Format, stock: Stock, work: Path) -> dict[int, bytes]:
    given = Input(stock.dumps[one.name], [], stock.cores[one.base], stock.identity if one.encrypted else None, one.vmdump)
    ran = limited.run([stock.programs / "bigiron", *dump_to_elf(given, "core").words], work, 1 << 30)
    found = memory.of_run(ran, work, "core")
    if found is None or not found.complete:
        raise LabError(f"{one.name}: the unchanged dump is refused: {ran.ended}\n{ran.stderr.decode(errors='replace')}")
    (work / "core").unlink()
    return found.pages


def make(bigiron: Path, synth_core: Path, sample: Path, work: Path, kept: Path, wanted: Iterable[Format]) -> Stock:
    """Makes the dumps of these formats in `work`, and reads each once."""
    programs = work / "programs"
    programs.mkdir()
    for name in ("bigiron", *ALIASES):
        (programs / name).symlink_to(bigiron)
    cores = {"machine": work / "machine.core", "state": work / "state.core"}
    bases.machine(cores["machine"], synth_core)
    bases.state(cores["state"], bigiron, sample)
    stock = Stock(programs, {}, {}, cores, {}, formats.identity(work), kept)
    shutil.rmtree(kept, ignore_errors=True)
    for one in wanted:
        stock.dumps[one.name] = formats.make(one, bigiron, cores[one.base], work / "dumps" / one.name)
        if one.options:
            stock.others[one.name] = formats.make(one, bigiron, cores[one.base], work / "others" / one.name)[0]
        stock.pages[one.name] = _pages(one, stock, work)
    return stock
