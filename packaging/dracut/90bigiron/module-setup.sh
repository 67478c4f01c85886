#!/bin/bash
# dracut module: installs bigiron's static program in the image of a capture kernel, also under
# the names makedumpfile and vmcore-dmesg, and the script that dumps to a raw device.
#
# dracut installs modules in the order of their numbers and does not replace existing
# files (inst in dracut-init.sh). The later module 99kdumpbase therefore keeps these programs,
# and `core_collector makedumpfile ...` runs bigiron.

# shellcheck disable=SC2154  # dracut sets initdir and moddir
# The directory of the package's files; tests set another one.
bigiron_files=${BIGIRON_FILES:-/usr/lib/bigiron}

check() {
    [[ -x $bigiron_files/bigiron ]] || return 1
    # kdumpctl and mkdumprd set it for the capture kernel's image; other images need --add bigiron.
    [[ ${IN_KDUMP-} ]] || return 255
}

depends() {
    echo base
}

install() {
    inst_simple "$bigiron_files/bigiron" /usr/bin/bigiron
    inst_simple "$bigiron_files/capture-to-device" /usr/lib/bigiron/capture-to-device
    [[ ! -e /etc/default/bigiron ]] || inst_simple /etc/default/bigiron
    if [[ -e /etc/default/bigiron-ram-dump ]]; then
        inst_simple /etc/default/bigiron-ram-dump
        inst_multiple -o modprobe
    fi
    # The command that takes the report.
    local report
    # shellcheck source=packaging/default/bigiron
    report=$(REPORT=''; [[ ! -e /etc/default/bigiron ]] || . /etc/default/bigiron; echo "${REPORT%% *}")
    [[ ! $report ]] || inst_multiple -o "$report"
    # The production kernel, which the capture kernel starts without a file system.
    # shellcheck disable=SC2154  # dracut sets kernel
    if grep -qs '^CAPTURE_OPTIONS=.*--then-boot' /etc/default/bigiron; then
        inst_simple "/boot/vmlinuz-$kernel"
        inst_simple "/boot/initramfs-$kernel.img"
    fi
    inst_multiple sleep sync
    inst_multiple -o reboot
    # Relative links, which also resolve outside the image. /sbin is a directory, or a link to one.
    local directory name
    for directory in usr/bin sbin; do
        mkdir -p "$initdir/$directory"
        for name in makedumpfile vmcore-dmesg; do
            ln -srf "$initdir/usr/bin/bigiron" "$initdir/$directory/$name"
        done
    done
    inst_hook pre-mount 01 "$moddir/bigiron-capture.sh"
}

installkernel() {
    [[ ! -e /etc/default/bigiron-ram-dump ]] || hostonly='' instmods nd_e820 nd_pmem
}
