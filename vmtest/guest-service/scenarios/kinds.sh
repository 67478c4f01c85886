# Crashes after which the firmware is needed, too little room, other data on the device, and a kernel that is missing.
captured() {
    echo 'sysrq triggered crash' >/tmp/kinds
    run kind /bigiron dump --json --then-boot auto --firmware-after /tmp/kinds /proc/vmcore /dev/null
    run missing /bigiron dump --json --then-boot auto --boot-directory /tmp /proc/vmcore /dev/null
    run small /bigiron dump --json -c none -d 0,1 --then /dev/vdb /proc/vmcore /dev/pmem0
    mkswap /dev/pmem0 >/tmp/out 2>&1
    run claimed /bigiron dump --json -f vmdump /proc/vmcore /dev/pmem0
    dd if=/dev/zero of=/dev/pmem0 bs=1M count=1
    echo 1 >/proc/sys/kernel/kexec_load_disabled
    run forbidden /bigiron dump --json -f vmdump --then-boot auto /proc/vmcore /dev/pmem0
}
served() { crash; }
