#!/bin/bash
# A dracut module that stands in for kdump-utils' 99kdumpbase and also installs the system's makedumpfile into the
# image. vmtest/debian checks whose makedumpfile the image contains in the end.

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
