# The capture kernel hangs while it dumps: the hardware watchdog takes the way through the firmware, and the memory has
# the reason. Another panic without `panic=` is a hang.

# is_dump: the device has the blocks of a dump.
is_dump() {
    echo 1 >/proc/sys/vm/drop_caches
    head -c 8 /dev/pmem0 | grep -q BIGIRDEV
}

captured() {
    # Opened, it resets the machine after 30 s.
    sleep 1000 >/dev/watchdog &
    /bigiron dump -f kdump -d 1 -c none --write-limit 8M /proc/vmcore /dev/pmem0 &
    until is_dump; do sleep 0.1; done
    sleep 4
    echo 0 >/proc/sys/kernel/panic
    mark hang
    echo c >/proc/sysrq-trigger
}
served() {
    [ "$1" = 2 ] || crash
    mounted /dev/vdc ext4
    run save /bigiron save --json /dev/pmem0 /mnt
    run again /bigiron save --json /dev/pmem0 /mnt
    umount /mnt
}
