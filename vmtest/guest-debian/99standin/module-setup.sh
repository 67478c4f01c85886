#!/bin/bash
# dracut module in the place of kdump-utils' 99kdumpbase: puts the system's makedumpfile into the image, as that does.
# vmtest/debian sees whose makedumpfile is there in the end.

check() {
    [[ ${IN_KDUMP-} ]]
}

depends() {
    echo base
}

install() {
    inst /usr/bin/makedumpfile /sbin/makedumpfile
    inst_multiple dd nproc
}
