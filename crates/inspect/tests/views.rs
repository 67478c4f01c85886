//! Work queues, mounts and interrupts of the real vmcore in samples/.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod sample;

use bigiron_format::VirtAddr;
use bigiron_inspect::mounts::Mount;
use bigiron_inspect::{Interrupts, Mounts, Program, WorkQueues};
use bigiron_kernel::types::{find_nested_member, structure};

use sample::{offset, sample, with_program};

/// SB_FREEZE_COMPLETE, and the bit EXT4_FLAGS_SHUTDOWN.
const FROZEN: u16 = 4;
const SHUT_DOWN: u64 = 1 << 1;

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn healthy_kernel_has_no_busy_workers_and_no_waiting_items() {
    with_program(&sample(), |program| {
        let found = WorkQueues::of(program).unwrap();
        assert_eq!(found.gaps, Vec::<String>::new());
        let has = |name: &str| found.queues.iter().any(|queue| queue.name == name);
        assert!(has("events") && has("mm_percpu_wq") && !has(""));
        // Each of two CPUs has two, of which the second is for items of high priority.
        let of_cpus = found
            .pools
            .iter()
            .filter_map(|pool| pool.cpu.zip(pool.nice));
        let of_cpus: Vec<_> = of_cpus.collect();
        assert_eq!(of_cpus, [(0, 0), (0, -20), (1, 0), (1, -20)]);
        for pool in &found.pools {
            assert!(pool.busy.is_empty() && pool.pending_count == 0);
            assert_eq!(pool.idle, pool.workers);
        }
        assert!(found.queues.iter().all(|queue| queue.waiting_count == 0));
    });
}

/// Addresses of a worker of the first pool: the members that say what it executes.
fn of_first_worker(program: &Program) -> [VirtAddr; 3] {
    let pools = WorkQueues::of(program).unwrap().pools;
    let head = program.member(pools[0].address, "worker_pool", "workers");
    let workers = program.list(head.unwrap(), "worker", "node", 100).unwrap();
    ["current_work", "current_func", "current_pwq"]
        .map(|path| program.member(workers.items[0], "worker", path).unwrap())
}

#[test]
fn busy_worker_is_shown_with_its_function_and_queue() {
    let mut bytes = sample();
    let (places, values) = with_program(&bytes, |program| {
        let queues = WorkQueues::of(program).unwrap().queues;
        let events = queues.iter().find(|queue| queue.name == "events").unwrap();
        let head = program.member(events.address, "workqueue_struct", "pwqs");
        let parts = program.list(head.unwrap(), "pool_workqueue", "pwqs_node", 100);
        let function = program.symbol("vmstat_update").unwrap();
        let values = [events.address.0, function.0, parts.unwrap().items[0].0];
        let places = of_first_worker(program).map(|at| offset(program, at));
        (places, values)
    });
    for (at, value) in places.into_iter().zip(values) {
        put(&mut bytes, at, value);
    }
    with_program(&bytes, |program| {
        let pools = WorkQueues::of(program).unwrap().pools;
        let [worker] = pools[0].busy.as_slice() else {
            panic!("{pools:?}");
        };
        assert!(worker.task.name.starts_with("kworker/0:"));
        assert_eq!(worker.item.function.as_deref(), Some("vmstat_update"));
        assert_eq!(worker.item.queue.as_deref(), Some("events"));
        assert!(worker.busy_nsec.is_some());
        assert!(pools.iter().skip(1).all(|pool| pool.busy.is_empty()));
    });
}

fn on_disk(program: &Program) -> Mount {
    let found = Mounts::of(program).unwrap();
    assert_eq!(found.gaps, Vec::<String>::new());
    let mounts = &found.namespaces[0].mounts;
    let paths: Vec<_> = mounts.iter().map(|mount| mount.path.as_str()).collect();
    assert_eq!(
        paths,
        ["/", "/proc", "/sys", "/dev", "/data", "/tmp", "/ram"]
    );
    mounts
        .iter()
        .find(|mount| mount.path == "/data")
        .unwrap()
        .clone()
}

#[test]
fn mounts_are_those_of_the_guest() {
    with_program(&sample(), |program| {
        let disk = on_disk(program);
        assert_eq!(
            (disk.device.as_str(), disk.filesystem.as_str()),
            ("/dev/vda", "ext4")
        );
        assert_eq!(disk.options, ["rw", "relatime"]);
        assert_eq!(
            (disk.frozen, disk.shut_down, &disk.root),
            (None, Some(false), &None)
        );
    });
}

#[test]
fn file_system_is_frozen_and_shut_down_if_it_says_so() {
    let mut bytes = sample();
    let (frozen, flags) = with_program(&bytes, |program| {
        let at = on_disk(program).super_block;
        let frozen = program
            .member(at, "super_block", "s_writers.frozen")
            .unwrap();
        let own = program.pointer(at, "super_block", "s_fs_info").unwrap();
        let flags = program.tables().find_map(|(types, _)| {
            let outer = structure(types, "ext4_sb_info").unwrap()?;
            find_nested_member(types, outer, "s_ext4_flags").unwrap()
        });
        let flags = VirtAddr(own.0 + flags.unwrap().offset);
        (offset(program, frozen), offset(program, flags))
    });
    bytes[frozen..frozen + 2].copy_from_slice(&FROZEN.to_le_bytes());
    put(&mut bytes, flags, SHUT_DOWN);
    with_program(&bytes, |program| {
        let disk = on_disk(program);
        assert_eq!(
            (disk.frozen, disk.shut_down),
            (Some("completely"), Some(true))
        );
    });
}

#[test]
fn counts_of_interrupts_add_up_to_the_kernels_own_sums() {
    with_program(&sample(), |program| {
        let found = Interrupts::of(program).unwrap();
        assert_eq!(found.gaps, Vec::<String>::new());
        assert_eq!(found.cpus, [0, 1]);
        for (place, cpu) in found.cpus.iter().enumerate() {
            let kernel = program.per_cpu("kstat", *cpu).unwrap();
            let sum = program.value(kernel, "kernel_stat", "irqs_sum").unwrap();
            let counts = found.lines.iter().map(|line| line.counts[place]);
            assert_eq!(counts.sum::<u64>(), sum, "CPU {cpu}");
        }
        let serial = found.lines.iter().find(|line| line.number == 4).unwrap();
        assert_eq!(serial.controller.as_deref(), Some("IO-APIC"));
        let [action] = serial.actions.as_slice() else {
            panic!("{serial:?}");
        };
        assert_eq!(action.name, "ttyS0");
        assert!(action.handler.as_deref().unwrap().starts_with("serial8250"));
        // Each tick raises a softirq, and each tick is an interrupt of the CPU.
        let of = |all: &[bigiron_inspect::interrupts::Counts], name: &str| {
            let found = all.iter().find(|counts| counts.name == name);
            found.unwrap().counts.iter().sum::<u64>()
        };
        assert!(of(&found.soft, "SCHED") > 100 && of(&found.of_cpus, "LOC") > 100);
    });
}
