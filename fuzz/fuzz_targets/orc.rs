//! A real kernel with modified stacks, registers and ORC tables: unwinding ends within the size
//! of a stack.
#![no_main]

use std::sync::LazyLock;

use bigiron_format::VirtAddr;
use bigiron_fuzz::sample::Sample;
use bigiron_inspect::{Task, Tasks, Unwinder};
use bigiron_kernel::arch::x86_64::orc::Orc;
use libfuzzer_sys::fuzz_target;

/// Number of words above the last frame that are modified as well.
const ABOVE: u64 = 16;

struct Machine {
    sample: Sample,
    tasks: Vec<Task>,
    places: Vec<usize>,
    addresses: Vec<VirtAddr>,
}

/// The words of the stacks, and the ORC entries of the code on them.
static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let sample = Sample::open();
    let program = &sample.program;
    let mut tasks = Tasks::of(program).expect("tasks").tasks;
    // Tasks with as many different call traces as there are.
    tasks.truncate(12);
    let unwinder = Unwinder::new(program).expect("x86-64");
    let mut addresses = vec![VirtAddr(0)];
    let mut words = Vec::new();
    for task in &tasks {
        addresses.push(task.address);
        words.extend(
            program
                .member(task.address, "task_struct", "thread.sp")
                .ok(),
        );
        let frames = unwinder.task(task).frames;
        let (Some(first), Some(last)) = (frames.first(), frames.last()) else {
            continue;
        };
        let end = last.sp.0.saturating_add(8 * ABOVE);
        let start = first.sp.0.saturating_sub(64);
        words.extend((start..end.min(start + 4096)).step_by(8).map(VirtAddr));
        for frame in frames {
            addresses.extend([frame.address, frame.sp]);
            let entry = Orc::of(program).and_then(|orc| orc.entry_of(program, frame.address));
            words.extend(entry.ok().flatten());
        }
    }
    let places = words.into_iter().filter_map(|word| sample.offset(word));
    Machine {
        places: places.collect(),
        addresses,
        tasks,
        sample,
    }
});

fuzz_target!(|data: &[u8]| {
    let machine = &*MACHINE;
    let sample = &machine.sample;
    sample.change(&machine.places, &machine.addresses, data);
    let unwinder = Unwinder::new(&sample.program).expect("x86-64");
    for task in &machine.tasks {
        assert!(unwinder.task(task).frames.len() <= 4096);
    }
});
