# A second crash while the first dump is being saved, to a slow disk.
captured() {
    /bigiron dump -f vmdump --then /dev/vdb --then-boot auto --firmware-within 0 /proc/vmcore /dev/pmem0
}
served() {
    [ "$1" != 1 ] || crash
    mounted /dev/vdc ext4
    if [ "$1" = 2 ]; then
        /bigiron save --quiet /dev/pmem0 /mnt &
        until ls -A /mnt | grep -q vmdump; do sleep 0.1; done
        crash
    fi
    ls -A /mnt
    run first /bigiron save --json /dev/pmem0 /mnt
    run second /bigiron save --json /dev/vdb /mnt
    run again /bigiron save --json /dev/pmem0 /mnt
    umount /mnt
}
