# shellcheck shell=sh disable=SC2317  # called by name
# Loads in which nothing is wrong, for vmtest/faults. Sourced by init.

# Processes that wait for a disk, files and memory in use.
user_files() {
    mount -t ext4 /dev/vda /mnt || fail "mount"
    for writer in 1 2 3 4; do
        while true; do
            dd if=/dev/urandom of=/mnt/file$writer bs=64k count=32 conv=fsync 2>/dev/null
            ls -lR /sys/class >/dev/null
        done &
    done
    sleep 5
    echo "faults: ready"
}

# The same, until the kernel is asked to crash.
user_crash() {
    user_files
    echo c >/proc/sysrq-trigger
}

# Nothing runs for long.
user_idle() {
    sleep 25
    echo "faults: ready"
}

# More processes than CPUs that never sleep.
user_cpu() {
    for _ in 1 2 3 4 5 6; do
        while true; do :; done &
    done
    sleep 12
    echo "faults: ready"
}

# Processes come and go, and talk by pipes.
user_processes() {
    for _ in 1 2 3 4; do
        while true; do
            seq 500 | sort -r | md5sum >/dev/null
            (exit 1)
        done &
    done
    sleep 8
    echo "faults: ready"
}

# Memory is short: caches are reclaimed all the time.
user_reclaim() {
    mount -t ext4 /dev/vda /mnt || fail "mount"
    mount -t tmpfs -o size=100m tmpfs /sys/kernel/debug || fail "mount tmpfs"
    dd if=/dev/urandom of=/sys/kernel/debug/file bs=1M count=90 2>/dev/null
    dd if=/dev/urandom of=/mnt/file bs=1M count=40 2>/dev/null
    for _ in 1 2 3; do
        while true; do
            cat /mnt/file /dev/vda >/dev/null
        done &
    done
    sleep 8
    echo "faults: ready"
}

# The OOM killer ends processes of a memory cgroup; the machine has enough memory.
user_cgroup() {
    mount -t cgroup2 cgroup2 /sys/fs/cgroup || fail "mount cgroup2"
    echo +memory >/sys/fs/cgroup/cgroup.subtree_control || fail "memory cgroups"
    mkdir /sys/fs/cgroup/small
    echo 16M >/sys/fs/cgroup/small/memory.max
    for _ in 1 2; do
        sh -c 'echo $$ >/sys/fs/cgroup/small/cgroup.procs; tail /dev/zero'
    done
    echo "faults: ready"
}

# A memory cgroup with anonymous memory, page cache and tmpfs, and the kernel's own counts of them.
user_charged() {
    mount -t cgroup2 cgroup2 /sys/fs/cgroup || fail "mount cgroup2"
    echo +memory >/sys/fs/cgroup/cgroup.subtree_control || fail "memory cgroups"
    mkdir /sys/fs/cgroup/charged /tmpfs
    mount -t ext4 /dev/vda /mnt || fail "mount"
    mount -t tmpfs tmpfs /tmpfs || fail "mount tmpfs"
    sh -c '
        echo $$ >/sys/fs/cgroup/charged/cgroup.procs
        for directory in /mnt /tmpfs; do
            dd if=/dev/urandom of=$directory/file bs=64k count=64 2>/dev/null
        done
        text=$(dd if=/dev/urandom bs=64k count=48 2>/dev/null | base64)
        : >/ready
        while true; do read -r -t 3600 _; done </dev/console
        echo "$text"
    ' &
    while [ ! -e /ready ]; do sleep 1; done
    sync
    # The free pages of the CPUs, and the batches of charges.
    sleep 2
    sed -n 's/^\(anon\|file\|shmem\) /faults: charged &/p' /sys/fs/cgroup/charged/memory.stat
    echo "faults: ready"
}

# Processes that are stopped, traced by nobody, or wait for a pipe, and a child that became a zombie.
user_stopped() {
    sleep 3600 &
    kill -STOP $!
    mkfifo /pipe
    cat /pipe &
    sh -c 'sleep 0 & exec sleep 3600' &
    sleep 12
    echo "faults: ready"
}
