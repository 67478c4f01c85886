"""The device tree of an emulated machine, with memory that no kernel uses as RAM."""

from pathlib import Path

from . import tools
from .architectures import Architecture


def with_kept_memory(architecture: Architecture, ram_mib: int, cpus: int, start: int, size: int, work: Path) -> Path:
    """Returns the tree that QEMU makes for such a machine, in which a range of RAM is persistent memory, /dev/pmemN.

    The kernel must not have the range as RAM: the driver adds struct pages for it, and ends with EEXIST if there are any,
    even of a reserved range that is not mapped. QEMU describes all its RAM, so `mem=` must end before the range.
    Kernel: Documentation/devicetree/bindings/pmem/pmem-region.txt, drivers/nvdimm/of_pmem.c.
    """
    tools.need(architecture.qemu, "fdtput")
    tree = work / "tree.dtb"
    machine, model, *others = architecture.options
    tools.run([
        architecture.qemu, machine, f"{model},dumpdtb={tree}", *others, "-smp", str(cpus), "-m", f"{ram_mib}M",
        "-display", "none", "-nodefaults", *(word for device in architecture.devices for word in ("-device", device)),
    ])  # fmt: skip
    node = f"/pmem@{start:x}"
    reg = [f"{cell:#x}" for number in (start, size) for cell in (number >> 32, number & 0xFFFFFFFF)]
    for kind, name, values in (("s", "compatible", ["pmem-region"]), ("x", "reg", reg)):
        tools.run(["fdtput", "-p", "-t", kind, tree, node, name, *values])
    return tree
