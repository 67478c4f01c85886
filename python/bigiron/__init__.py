"""Crash dumps of Linux kernels, and large memory by helper threads (`bigiron.mem`).

`open` opens a dump in any format that bigiron reads and returns a `Dump`: memory, symbols, types, the kernel log and
page classes, without debug symbols. `drgn` opens the same dump in drgn. Threads run concurrently, because reads and
computations release the GIL.
"""

from . import mem, triage
from ._bigiron import Error, FaultError, Pages, UnknownNameError, set_memory_limit
from ._drgn import drgn
from ._dump import Dump, PageRun, Record, Symbol, Task, Value, open

__all__ = [
    "Dump",
    "Error",
    "FaultError",
    "PageRun",
    "Pages",
    "Record",
    "Symbol",
    "Task",
    "UnknownNameError",
    "Value",
    "drgn",
    "mem",
    "open",
    "set_memory_limit",
    "triage",
]
