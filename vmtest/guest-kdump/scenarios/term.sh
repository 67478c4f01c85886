mounted /dev/vdb ext4
# A slow dump, so that the signal arrives while it is running.
/bigiron dump --json -c lzo --write-limit 4M /proc/vmcore /mnt/vmcore >/tmp/out 2>/tmp/err &
sleep 4
kill -TERM $!
wait $!
report dump $? 0 0
umount /mnt
