# Makes each dump that the plan estimated, and removes it, so that all start with the same disk.
mounted /dev/vdb ext4
for level in 31 1; do
    for how in "-f kdump -c zstd" "-f kdump -c lzo" "-f vmdump -c zstd"; do
        # shellcheck disable=SC2086 # words
        run "dump -d $level $how" /bigiron dump --json -d $level $how /proc/vmcore /mnt/vmcore
        say "{\"size\": $(stat -c %s /mnt/vmcore), \"of\": \"dump -d $level $how\"}"
        rm -f /mnt/vmcore
        sync
    done
done
umount /mnt
