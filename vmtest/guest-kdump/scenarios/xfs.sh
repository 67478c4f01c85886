mounted /dev/vdb xfs
run dump /bigiron dump --json -c lzo /proc/vmcore /mnt/vmcore
after /dev/vdb xfs
# The host has nothing that reads XFS without mounting it.
cat /mnt/vmcore >/dev/vdc
sync
