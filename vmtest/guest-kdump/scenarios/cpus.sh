mounted /dev/vdb ext4
# Some machines bring all CPUs up by themselves, some do not.
echo 0 >/sys/devices/system/cpu/cpu1/online
memory
run dump /bigiron dump --json -c lzo /proc/vmcore /mnt/vmcore
umount /mnt
