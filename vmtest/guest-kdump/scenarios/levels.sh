mounted /dev/vdb ext4
ln -s /bigiron /bin/makedumpfile
makedumpfile -l -d 1,31 /proc/vmcore /mnt/vmcore >/tmp/out 2>/tmp/err
report dump $? 0 0
umount /mnt
