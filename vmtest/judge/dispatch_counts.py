"""Words of Power guests that the hypervisor changes, even while the capture kernel runs.

A guest registers an area for each of its virtual CPUs (struct lppaca, arch/powerpc/include/asm/lppaca.h), in which the
hypervisor counts how often it dispatched the CPU (QEMU: spapr_cpu_exec_enter, hw/ppc/spapr.c). A crashed kernel does not
unregister them (pseries_kexec_cpu_down, arch/powerpc/platforms/pseries/kexec.c).
"""

# `desc` in EBCDIC: "LpPa".
DESCRIPTOR = bytes.fromhex("d397d781")
# The areas are aligned to 1 KiB.
ALIGNMENT = 1 << 10
# `yield_count`.
COUNT_AT, COUNT_SIZE = 0x100, 4


def blanked(page: bytes) -> bytes:
    """Returns a page with zeros in place of its dispatch counts."""
    found = bytearray(page)
    for area in range(0, len(page), ALIGNMENT):
        if page[area : area + len(DESCRIPTOR)] == DESCRIPTOR:
            start = area + COUNT_AT
            found[start : start + COUNT_SIZE] = bytes(COUNT_SIZE)
    return bytes(found)
