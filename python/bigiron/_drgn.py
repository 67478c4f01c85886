"""drgn programs for dumps in any format that bigiron reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._bigiron import FaultError
from ._dump import Dump, Path, open

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drgn import Platform, Program

ARCHITECTURES = {
    "aarch64": "AARCH64",
    "aarch64_be": "AARCH64",
    "loongarch64": "LOONGARCH64",
    "ppc64": "PPC64",
    "ppc64le": "PPC64",
    "riscv64": "RISCV64",
    "s390x": "S390X",
    "x86_64": "X86_64",
}
"""drgn's name of each machine."""

ALL = (1 << 64) - 1
"""Size of the virtual memory; drgn does not take 2^64."""


def drgn(dump: Dump | Path | Sequence[Path]) -> Program:
    """Returns a drgn program for a dump, or for the files of one. Debug symbols are loaded as in any drgn program.

    Requires drgn 0.3.0 or later, which reads the registers of crashed CPUs from the kernel's own memory.
    """
    import drgn

    opened = dump if isinstance(dump, Dump) else open(dump)
    program = drgn.Program(_platform(opened))

    def read(address: int, count: int, offset: int, physical: bool) -> bytes:
        return _read(opened, address, count, physical)

    program.add_memory_segment(0, opened.end_frame * opened.page_size, read, physical=True)
    program.set_linux_kernel_custom(opened._dump.vmcoreinfo_bytes(), False)
    # drgn translates the addresses of some architectures only. It prefers the segment that was added last.
    program.add_memory_segment(0, ALL, read, physical=False)
    return program


def _platform(dump: Dump) -> Platform:
    import drgn

    # Dumps of 32-bit kernels are refused.
    flags = drgn.PlatformFlags.IS_64_BIT
    # drgn's default is the usual byte order of the architecture, not that of this kernel.
    if dump.byte_order == "little":
        flags |= drgn.PlatformFlags.IS_LITTLE_ENDIAN
    name = ARCHITECTURES.get(dump.machine, "UNKNOWN")
    return drgn.Platform(getattr(drgn.Architecture, name, drgn.Architecture.UNKNOWN), flags)


def _read(dump: Dump, address: int, count: int, physical: bool) -> bytes:
    import drgn

    try:
        return dump.read(address, count, physical=physical)
    except FaultError as error:
        raise drgn.FaultError(str(error), address) from error
