"""drgn programs for dumps in any format that bigiron reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._bigiron import FaultError
from ._dump import Dump, Path, open

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drgn import Program

ARCHITECTURES = {
    "aarch64": "AARCH64",
    "ppc64": "PPC64",
    "ppc64le": "PPC64",
    "riscv64": "RISCV64",
    "s390x": "S390X",
    "x86_64": "X86_64",
}


def drgn(dump: Dump | Path | Sequence[Path]) -> Program:
    """Returns a drgn program for a dump, or for the files of one. Debug symbols are loaded as in any drgn program.

    Requires drgn 0.3.0 or later, which reads the registers of crashed CPUs from the kernel's own memory.
    """
    import drgn

    opened = dump if isinstance(dump, Dump) else open(dump)
    architecture = drgn.Architecture[ARCHITECTURES.get(opened.machine, "UNKNOWN")]
    program = drgn.Program(drgn.Platform(architecture))

    def read(address: int, count: int, offset: int, physical: bool) -> bytes:
        return _read(opened, address, count)

    program.add_memory_segment(0, opened.end_frame * opened.page_size, read, physical=True)
    program.set_linux_kernel_custom(opened._dump.vmcoreinfo_bytes(), False)
    return program


def _read(dump: Dump, address: int, count: int) -> bytes:
    import drgn

    try:
        return dump.read(address, count, physical=True)
    except FaultError as error:
        raise drgn.FaultError(str(error), address) from error
