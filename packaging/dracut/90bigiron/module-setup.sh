#!/bin/bash
# dracut module: bigiron's static program in the image of a capture kernel, also by
# the names makedumpfile and vmcore-dmesg, with what dumps to a raw device.
#
# dracut installs modules in the order of their numbers and keeps a file that is there
# already (inst in dracut-init.sh). So the module kdumpbase, 99, finds these programs
# where it would put its own, and `core_collector makedumpfile ...` runs this one.

# shellcheck disable=SC2154  # dracut sets initdir and moddir
# Where the package has its files; another place to try it out.
bigiron_files=${BIGIRON_FILES:-/usr/lib/bigiron}

check() {
    [[ -x $bigiron_files/bigiron ]] || return 1
    # kdumpctl and mkdumprd set it for the capture kernel's image; others ask by --add bigiron.
    [[ ${IN_KDUMP-} ]] || return 255
}

depends() {
    echo base
}

install() {
    inst_simple "$bigiron_files/bigiron" /usr/bin/bigiron
    inst_simple "$bigiron_files/capture-to-device" /usr/lib/bigiron/capture-to-device
    [[ ! -e /etc/default/bigiron ]] || inst_simple /etc/default/bigiron
    inst_multiple sleep sync
    inst_multiple -o reboot
    # Relative links, as the image may be looked at from outside. /sbin is a directory, or a link to one.
    local place name
    for place in usr/bin sbin; do
        mkdir -p "$initdir/$place"
        for name in makedumpfile vmcore-dmesg; do
            ln -srf "$initdir/usr/bin/bigiron" "$initdir/$place/$name"
        done
    done
    inst_hook pre-mount 01 "$moddir/bigiron-capture.sh"
}
