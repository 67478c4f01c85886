mounted /dev/vdb xfs
watched dump /bigiron dump --json -c lzo /proc/vmcore /mnt/vmcore
after /dev/vdb xfs
# The host cannot read XFS without mounting it, so the dump is copied to a raw disk.
cat /mnt/vmcore >/dev/vdc
sync
