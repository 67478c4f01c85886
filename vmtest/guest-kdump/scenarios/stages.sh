# Runs each program in turn, for several rounds; removes every dump, so that all start with the same disk.
mounted /dev/vdb ext4
mark ready
round=0
while [ $round -lt "$rounds" ]; do
    round=$((round + 1))
    for level in 31 1; do
        run "bigiron -d $level #$round" /bigiron dump --json -c "$codec" -d $level /proc/vmcore /mnt/vmcore
        ls -s /mnt/vmcore
        rm -f /mnt/vmcore
        sync
        for threads in $makedumpfile_threads; do
            more=
            [ "$threads" = 0 ] || more=--num-threads=$threads
            run "makedumpfile $more -d $level #$round" \
                /makedumpfile $more "$flag" -d $level --message-level 0 /proc/vmcore /mnt/vmcore
            rm -f /mnt/vmcore
            sync
        done
    done
done
umount /mnt
