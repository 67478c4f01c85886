mounted /dev/vdb ext4
run report /bigiron dump --report-only /proc/vmcore /mnt/report
run dump /bigiron dump --json --report-first /mnt/first -c lzo /proc/vmcore /mnt/vmcore
umount /mnt
