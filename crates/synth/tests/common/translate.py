"""Translates addresses of an ELF core by libkdumpfile, for crates/synth/tests/translation.rs.

Usage: translate.py CORE MAPPINGS [ROOT]. MAPPINGS has a line for each mapping: virtual address, physical
address and length in hexadecimal. The first and the last word of each are translated, and the
first differences are printed. ROOT is the physical address of the top-level page table, for kernels
of which libkdumpfile does not find it. The exit status is 1 if there are any, 77 without libkdumpfile.
"""

import sys

try:
    import addrxlat
    import kdumpfile
except ImportError:
    sys.exit(77)

# The method of the bindings of 0.5.1 only raises an error.
addrxlat.Context.cb_read_caps = lambda _: addrxlat.CAPS(addrxlat.KPHYSADDR)


def main():
    core, mappings, *root = sys.argv[1:]
    wrong = []
    dump = kdumpfile.kdumpfile(core)
    if root:
        dump.attr["addrxlat.force.rootpgt.as"] = addrxlat.MACHPHYSADDR
        dump.attr["addrxlat.force.rootpgt.addr"] = int(root[0], 16)
    dump.attr["addrxlat.ostype"] = "linux"
    context, system = dump.get_addrxlat_ctx(), dump.get_addrxlat_sys()
    count = 0
    with open(mappings, encoding="ascii") as lines:
        for line in lines:
            virtual, physical, length = (int(word, 16) for word in line.split())
            for offset in (0, length - 8):
                count += 1
                address = addrxlat.FullAddress(addrxlat.KVADDR, virtual + offset)
                try:
                    address.conv(addrxlat.KPHYSADDR, context, system)
                    found = address.addr
                except addrxlat.BaseException as error:
                    found = str(error)
                if found != physical + offset:
                    wrong.append((virtual + offset, physical + offset, found))
    print(f"{dump.attr['arch.name']}: {count} addresses, {len(wrong)} wrong")
    for virtual, physical, found in wrong[:20]:
        found = f"{found:#x}" if isinstance(found, int) else found
        print(f"{virtual:#x}: expected {physical:#x}, found {found}")
    sys.exit(1 if wrong or not count else 0)


main()
