//! A real kernel with modified task_structs, stacks, locks, requests, mounts, work queues and
//! interrupts: the search for who waits for whom ends, within the number of tasks, and so do all
//! findings and views.
#![no_main]

use std::sync::LazyLock;

use bigiron_format::VirtAddr;
use bigiron_fuzz::sample::Sample;
use bigiron_helpers::Stop;
use bigiron_inspect::{
    BlockQueue, Diagnosis, Interrupts, Mounts, Network, Tasks, Waits, WorkQueues, current_task,
};
use libfuzzer_sys::fuzz_target;

/// Words of a stack that are changed, from where its task sleeps.
const STACK_WORDS: u64 = 64;
/// Words changed at any other address.
const WORDS: u64 = 4;

struct Machine {
    sample: Sample,
    places: Vec<usize>,
    addresses: Vec<VirtAddr>,
    tasks: usize,
}

/// Words that tell what a task waits for, and their locations.
static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let sample = Sample::open();
    let program = &sample.program;
    let tasks = Tasks::of(program).expect("tasks").tasks;
    let mut addresses = vec![VirtAddr(0)];
    let mut words = Vec::new();
    let mut add = |address: VirtAddr, count: u64| {
        addresses.push(address);
        words.extend((0..count).map(|index| VirtAddr(address.0.wrapping_add(8 * index))));
    };
    for task in &tasks {
        add(task.address, 1);
        for path in ["__state", "pi_blocked_on", "se.exec_start", "thread.sp"] {
            if let Ok(member) = program.member(task.address, "task_struct", path) {
                add(member, 1);
            }
        }
        if let Ok(stack) = program.pointer(task.address, "task_struct", "thread.sp") {
            add(stack, STACK_WORDS);
        }
    }
    for queue in BlockQueue::all(program, &Stop::new()).expect("block devices") {
        add(queue.queue, WORDS);
        for path in ["tag_set", "hctx_table", "nr_hw_queues"] {
            if let Ok(member) = program.member(queue.queue, "request_queue", path) {
                add(member, 1);
            }
        }
    }
    for name in [
        "workqueues",
        "blockdev_superblock",
        "super_blocks",
        "irq_desc_tree",
        "jiffies",
        "rcu_state",
        "cgrp_dfl_root",
        "last_jiffies_update",
        "net_namespace_list",
    ] {
        if let Ok(address) = program.symbol(name) {
            add(address, WORDS);
        }
    }
    for name in [
        "call_single_queue",
        "cfd_data",
        "irq_stat",
        "kstat",
        "kernel_cpustat",
        "ksoftirqd",
        "tasklet_vec",
        "raised_list",
        "hrtimer_bases",
    ] {
        if let Ok(address) = program.per_cpu(name, 0) {
            add(address, WORDS);
        }
    }
    if let Ok(task) = current_task(program, 0) {
        add(task, 1);
    }
    let mounts = Mounts::of(program).expect("mounts");
    for mount in mounts.namespaces.iter().flat_map(|one| &one.mounts) {
        add(mount.super_block, 1);
        for path in [
            "mnt_parent",
            "mnt_mountpoint",
            "mnt_mounts",
            "mnt_child",
            "mnt_devname",
        ] {
            if let Ok(member) = program.member(mount.address, "mount", path) {
                add(member, 2);
            }
        }
    }
    let queues = WorkQueues::of(program).expect("work queues");
    for pool in &queues.pools {
        for path in ["worklist", "workers", "idle_list"] {
            if let Ok(member) = program.member(pool.address, "worker_pool", path) {
                add(member, 2);
            }
        }
    }
    for line in &Interrupts::of(program).expect("interrupts").lines {
        for path in ["irq_data", "kstat_irqs", "action"] {
            if let Ok(member) = program.member(line.address, "irq_desc", path) {
                add(member, 1);
            }
        }
    }
    let places = words
        .iter()
        .filter_map(|word| sample.offset(*word))
        .collect();
    Machine {
        places,
        tasks: tasks.len(),
        addresses,
        sample,
    }
});

fuzz_target!(|data: &[u8]| {
    let machine = &*MACHINE;
    let program = &machine.sample.program;
    machine
        .sample
        .change(&machine.places, &machine.addresses, data);
    if let Ok(found) = Waits::of(&program.renewed(), &Stop::new()) {
        // No memory holds many more tasks than there were.
        assert!(found.waits.len() <= machine.tasks + 1024);
        assert!(found.cycles.len() <= found.waits.len());
    }
    machine.sample.begin_command();
    let found = Diagnosis::of(&program.renewed(), &Stop::new());
    assert!(found.complete);
    machine.sample.begin_command();
    let _ = Mounts::of(&program.renewed());
    machine.sample.begin_command();
    let _ = Network::of(&program.renewed());
    machine.sample.begin_command();
    let _ = WorkQueues::of(&program.renewed());
    machine.sample.begin_command();
    let _ = Interrupts::of(&program.renewed());
});
