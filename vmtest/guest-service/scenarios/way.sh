# One way from panic to service. `way` is set by the host.
captured() {
    case $way in
    memory) /bigiron dump --quiet -f vmdump --then-boot auto /proc/vmcore /dev/pmem0 ;;
    *)
        mounted /dev/vdc ext4
        case $way in
        makedumpfile)
            export PATH=$PATH:/usr/bin
            makedumpfile -l -d 31 --message-level 1 /proc/vmcore /mnt/vmcore || fail makedumpfile
            ;;
        disk) /bigiron dump --quiet /proc/vmcore /mnt/vmcore || fail bigiron ;;
        kexec) /bigiron dump --quiet --then-boot auto /proc/vmcore /mnt/vmcore ;;
        esac
        umount /mnt
        ;;
    esac
}
# An HTTP server that answers is the service.
served() {
    mkdir -p /www
    echo ready >/www/index.html
    ifconfig lo 127.0.0.1 up
    httpd -p 80 -h /www
    until [ "$(wget -q -O - http://127.0.0.1/)" = ready ]; do sleep 0.05; done
    mark "answers-$1"
    [ "$1" != 1 ] || crash
    mounted /dev/vdc ext4
    if [ $way = memory ]; then
        run save /bigiron save --json /dev/pmem0 /mnt
        mark saved
    fi
    ls -l /mnt
    umount /mnt
}
