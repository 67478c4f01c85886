watched dump /bigiron dump --json -c lzo /proc/vmcore /dev/vdb
# As after the reboot.
mounted /dev/vdc ext4
run save /bigiron save --json /dev/vdb /mnt
after /dev/vdc ext4
run again /bigiron save --json /dev/vdb /mnt
umount /mnt
