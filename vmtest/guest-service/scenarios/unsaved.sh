# A second crash before the first dump is saved: it goes to the second target.
captured() {
    /bigiron dump -f vmdump --then /dev/vdb --then-boot auto --firmware-within 0 /proc/vmcore /dev/pmem0
}
served() {
    [ "$1" = 3 ] || crash
    mounted /dev/vdc ext4
    run first /bigiron save --json /dev/pmem0 /mnt
    run second /bigiron save --json /dev/vdb /mnt
    umount /mnt
}
