# The production kernel has the memory itself: only the capture kernel's command line keeps it.
captured() {
    run dump /bigiron dump --json -f vmdump /proc/vmcore /dev/pmem0
    # The dump is elsewhere; the production kernel may not be started by a capture kernel that keeps memory.
    run then /bigiron dump --json -f vmdump --then /dev/vdb --then-boot auto /proc/vmcore /dev/pmem0
}
served() { crash; }
