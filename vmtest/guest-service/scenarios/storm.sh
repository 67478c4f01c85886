# One crash after another, each saved before the next. The production kernel's command line has vmtest.crashes=N.
captured() {
    /bigiron dump --quiet -f vmdump --then-boot auto --firmware-within 0 /proc/vmcore /dev/pmem0
}
served() {
    mounted /dev/vdc ext4
    if [ "$1" != 1 ]; then
        run "save-$1" /bigiron save --json /dev/pmem0 /mnt
        run "again-$1" /bigiron save --json /dev/pmem0 /mnt
    fi
    umount /mnt
    [ "$1" -gt "$(tr ' ' '\n' </proc/cmdline | sed -n 's/^vmtest.crashes=//p')" ] || crash
}
