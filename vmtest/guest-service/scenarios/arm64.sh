# A device tree keeps memory, instead of memmap=. The first dump waits in it through a reset of the machine, the second
# one through a kexec, for which kexec-tools gets production's own device tree.
word() { tr ' ' '\n' </proc/cmdline | sed -n "s/^$1=//p"; }

captured() {
    way=$(word vmtest.way)
    run "disk-$way" /bigiron dump --json --overwrite-device -f vmdump /proc/vmcore /dev/vdb
    run "memory-$way" /bigiron dump --json -f vmdump /proc/vmcore /dev/pmem0
    [ "$way" = kexec ] || return
    mounted /dev/vda ext4
    kexec -l /boot/vmlinuz-* --initrd="$(echo /boot/initrd.img-*)" --dtb=/mnt/device-tree \
        --command-line="$(cat /mnt/production) vmtest.direct" || fail "kexec -l"
    umount /mnt
    kexec -e
    fail "kexec -e"
}
served() {
    case $1 in
    1)
        cat /sys/firmware/fdt >/data/device-tree
        cat /proc/cmdline >/data/production
        crash initrd vmtest.way=reset
        ;;
    2)
        mounted /dev/vdc ext4
        run check /bigiron verify --json /dev/pmem0
        run save /bigiron save --json /dev/pmem0 /mnt
        mkdir /mnt/disk
        run disk /bigiron save --json /dev/vdb /mnt/disk
        umount /mnt
        crash initrd vmtest.way=kexec
        ;;
    3)
        grep -q vmtest.direct /proc/cmdline || fail "the production kernel was started by a reset"
        mounted /dev/vdc ext4
        run save-direct /bigiron save --json /dev/pmem0 /mnt
        umount /mnt
        ;;
    esac
}
