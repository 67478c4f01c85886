# The memory changes while the dump waits in it: a flipped bit, a second half that was cleared, all of it cleared.
captured() {
    /bigiron dump -f vmdump --then-boot auto --firmware-within 0 /proc/vmcore /dev/pmem0
}

# The middle of the dump, in blocks of 4 KiB, from the length of the contents in the block at the start.
middle() { echo $(($(od -An -td8 -j 64 -N 8 /dev/pmem0) / 8192)); }

served() {
    [ "$1" = 2 ] || crash
    mounted /dev/vdc ext4
    dd if=/dev/pmem0 of=/tmp/block bs=4096 skip="$(middle)" count=1
    run whole /bigiron verify --json /dev/pmem0
    tr '\000-\377' '\001-\377\000' </tmp/block | dd of=/dev/pmem0 bs=4096 seek="$(middle)" conv=fsync
    run flipped /bigiron verify --json /dev/pmem0
    run kept /bigiron save --keep --json /dev/pmem0 /mnt
    dd if=/tmp/block of=/dev/pmem0 bs=4096 seek="$(middle)" conv=fsync
    run restored /bigiron verify --json /dev/pmem0
    dd if=/dev/zero of=/dev/pmem0 bs=4096 seek="$(middle)" conv=fsync
    run half /bigiron save --again --keep --json /dev/pmem0 /mnt
    dd if=/dev/zero of=/dev/pmem0 bs=1M conv=fsync
    run cleared /bigiron save --json /dev/pmem0 /mnt
    umount /mnt
}
