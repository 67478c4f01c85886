mounted /dev/vdb ext4
mark dump
run dump /bigiron dump --json -c lzo --write-limit 4M /proc/vmcore /mnt/vmcore
