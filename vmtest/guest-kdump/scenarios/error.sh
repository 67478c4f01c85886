mounted /dev/vdb ext4
run dump /bigiron dump --json -d 1 -c none /proc/vmcore /mnt/vmcore
umount /mnt
