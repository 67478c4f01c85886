"""Crash dumps of Linux kernels, opened from Python; large memory, made by helper threads (`bigiron.mem`).

`open` takes a dump in any format that bigiron reads and gives a `Dump`: memory, symbols, types, the kernel log and page
classes, without debug symbols. `drgn` hands the same dump to drgn. Threads run at the same time: what reads or
computes does not hold Python's lock.
"""

from . import mem
from ._bigiron import Error, FaultError, Pages, UnknownNameError
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
]
