ln -s /bigiron /bin/vmcore-dmesg
vmcore-dmesg /proc/vmcore | tr -d '\r' >/dev/vdb
sync
