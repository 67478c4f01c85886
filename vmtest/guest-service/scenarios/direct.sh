# A dump in memory, and the production kernel without the firmware. The second crash follows soon.
captured() {
    run disk /bigiron dump --json -f vmdump /proc/vmcore /dev/vdb
    /bigiron dump -f vmdump --then-boot auto /proc/vmcore /dev/pmem0
    say "{\"status\": $?}"
}
served() {
    [ "$1" != 1 ] || crash
    mounted /dev/vdc ext4
    run check /bigiron verify --json /dev/pmem0
    run save /bigiron save --json /dev/pmem0 /mnt
    run again /bigiron save --json /dev/pmem0 /mnt
    umount /mnt
    crash
}
