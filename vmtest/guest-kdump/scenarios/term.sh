mounted /dev/vdb ext4
# A dump that takes its time, so that the signal meets it at work.
/bigiron dump --json -c lzo --write-limit 4M /proc/vmcore /mnt/vmcore >/tmp/out 2>/tmp/err &
sleep 4
kill -TERM $!
wait $!
told dump $? 0 0
umount /mnt
