for cpu in /sys/devices/system/cpu/cpu[0-9]*/online; do
    echo 1 >"$cpu"
done
memory
run bench /bigiron bench vmcore --runs "$runs" ${threads:+-j "$threads"}
