mounted /dev/vdb ext4
mark dump
watched dump /bigiron dump --json -c lzo /proc/vmcore /mnt/vmcore
mark dumped
umount /mnt
