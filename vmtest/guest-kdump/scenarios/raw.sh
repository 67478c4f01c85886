run dump /bigiron dump --json -c lzo /proc/vmcore /dev/vdb
