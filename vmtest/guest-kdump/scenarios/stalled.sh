mounted /dev/vdb ext4
mark dump
sleep 1
run dump /bigiron dump --json -c lzo --stall-warning 3 /proc/vmcore /mnt/vmcore
umount /mnt
