mounted /dev/vdb ext4
mark dump
run dump /bigiron dump --json -d 1 -c lzo --write-limit 4M /proc/vmcore /mnt/vmcore
