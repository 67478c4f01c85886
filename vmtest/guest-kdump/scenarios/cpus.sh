mounted /dev/vdb ext4
# Some machines bring all CPUs online automatically, others do not.
echo 0 >/sys/devices/system/cpu/cpu1/online
memory
run dump /bigiron dump --json -c lzo /proc/vmcore /mnt/vmcore
umount /mnt
