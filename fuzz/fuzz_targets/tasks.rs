//! A real kernel with modified task_structs, run queues, mappings and lists: walking them ends,
//! within their number.
#![no_main]

use std::sync::LazyLock;

use bigiron_format::VirtAddr;
use bigiron_fuzz::sample::Sample;
use bigiron_inspect::{Tasks, UserProcess, run_queues};
use libfuzzer_sys::fuzz_target;

/// PID of the first process.
const FIRST: i32 = 1;
/// Size of its kernel stack.
const STACK: u64 = 16 << 10;

struct Machine {
    sample: Sample,
    places: Vec<usize>,
    addresses: Vec<VirtAddr>,
    tasks: usize,
}

/// Words of task_structs, signal_structs and run queues, and their locations.
static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let sample = Sample::open();
    let program = &sample.program;
    let tasks = Tasks::of(program).expect("tasks").tasks;
    let member = |at, name, path| program.member(at, name, path).ok();
    let mut addresses = vec![VirtAddr(0), program.symbol("init_task").expect("init_task")];
    for task in &tasks {
        let signal = program.pointer(task.address, "task_struct", "signal");
        let signal = signal.expect("its signals");
        addresses.extend([task.address, signal]);
        for path in [
            "tasks",
            "thread_node",
            "se.run_node",
            "rt.run_list",
            "mm",
            "comm",
        ] {
            addresses.extend(member(task.address, "task_struct", path));
        }
        addresses.extend(member(signal, "signal_struct", "thread_head"));
    }
    for queue in run_queues(program).expect("run queues") {
        addresses.push(queue.address);
        for path in [
            "curr",
            "idle",
            "cfs.tasks_timeline",
            "rt.active.queue",
            "dl.root",
        ] {
            addresses.extend(member(queue.address, "rq", path));
        }
    }
    // A process: what it has mapped, and its registers at the upper end of its stack.
    let first = tasks.iter().find(|task| task.pid == FIRST).expect("init");
    let stack = program.pointer(first.address, "task_struct", "stack");
    addresses.extend(stack.map(|stack| VirtAddr(stack.0 + STACK - 64)));
    let memory = program.pointer(first.address, "task_struct", "mm");
    let memory = memory.expect("its memory");
    for path in ["mm_mt", "pgd", "brk", "start_stack"] {
        addresses.extend(member(memory, "mm_struct", path));
    }
    let process = UserProcess::of(program, FIRST).expect("a process");
    for mapping in &process.mappings {
        addresses.push(mapping.address);
        for path in ["vm_flags", "vm_pgoff", "vm_file"] {
            addresses.extend(member(mapping.address, "vm_area_struct", path));
        }
    }
    // The number of CPUs, and where each has its own data.
    for name in ["nr_cpu_ids", "__cpu_online_mask", "__per_cpu_offset"] {
        addresses.extend(program.symbol(name).ok());
    }
    let words = addresses.iter().flat_map(|address| {
        let word = |index: u64| VirtAddr(address.0.wrapping_add(8 * index));
        (0..4).map(word)
    });
    let places = words.filter_map(|word| sample.offset(word)).collect();
    Machine {
        places,
        addresses,
        tasks: tasks.len(),
        sample,
    }
});

fuzz_target!(|data: &[u8]| {
    let machine = &*MACHINE;
    let sample = &machine.sample;
    sample.change(&machine.places, &machine.addresses, data);
    if let Ok(found) = Tasks::of(&sample.program) {
        // No memory holds many more tasks than there were.
        assert!(found.tasks.len() <= machine.tasks + 1024);
        assert!(found.gaps.len() <= 64);
    }
    if let Ok(process) = UserProcess::of(&sample.program.renewed(), FIRST) {
        assert!(process.threads.len() <= machine.tasks + 1024);
    }
    if let Ok(queues) = run_queues(&sample.program) {
        for queue in queues {
            let all = [queue.deadline, queue.real_time, queue.fair];
            assert!(all.iter().map(Vec::len).sum::<usize>() <= machine.tasks + 1024);
        }
    }
});
