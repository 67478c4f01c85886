# The ways from panic to service, one after another. The production kernel's command line has vmtest.ways=WAY,…: crash
# N goes way N. The capture kernel's has vmtest.way=WAY.
word() { tr ' ' '\n' </proc/cmdline | sed -n "s/^$1=//p"; }

captured() {
    way=$(word vmtest.way)
    dump="/bigiron dump -f vmdump -d 31 --quiet"
    # A second crash within ten minutes would go through the firmware.
    boot="--then-boot auto --firmware-within 0"
    case $way in
    memory) $dump $boot /proc/vmcore /dev/pmem0 ;;
    *) mounted /dev/vdc ext4 ;;
    esac
    case $way in
    makedumpfile) /makedumpfile -l -d 31 /proc/vmcore /mnt/makedumpfile >/dev/null ;;
    disk) $dump /proc/vmcore /mnt/disk ;;
    kexec) $dump $boot /proc/vmcore /mnt/kexec ;;
    esac
    [ $? = 0 ] || fail "the dump failed: $way"
    sync
    umount /mnt
    mark "dumped"
}

# Answers by HTTP with the number of the boot, and notes that it was asked.
serve() {
    mkdir -p /www/cgi-bin
    printf '#!/busybox sh\n: >/asked\nprintf "\\n%s\\n"\n' "$1" >/www/cgi-bin/boot
    chmod +x /www/cgi-bin/boot
    ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
    httpd -h /www
    mark "http-$1"
    while [ ! -e /asked ]; do sleep 0.1; done
    # For the answer to arrive.
    sleep 1
}

served() {
    ! grep -q bigiron.direct /proc/cmdline || mark "direct-$1"
    serve "$1"
    way=$(word vmtest.ways | cut -d, -f"$1")
    before=$(word vmtest.ways | cut -d, -f"$(($1 - 1))")
    if [ "$1" != 1 ] && [ "$before" = memory ]; then
        mounted /dev/vdc ext4
        run save /bigiron save --json /dev/pmem0 /mnt
        umount /mnt
    fi
    [ -n "$way" ] || return
    case $way in
    makedumpfile | disk) crash initrd-small "vmtest.way=$way" ;;
    *) crash initrd "vmtest.way=$way" ;;
    esac
}
