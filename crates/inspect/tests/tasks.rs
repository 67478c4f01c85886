//! Tasks, run queues and stacks of the real vmcore in samples/, whole and damaged.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod sample;

use std::collections::HashSet;

use bigiron_format::VirtAddr;
use bigiron_inspect::{Program, Task, Tasks, Trace, Unwinder, panic_cpu, run_queues};
use bigiron_kernel::arch::x86_64::orc::{Base, Kind, Orc, Register};

use sample::{offset, sample, with_program};

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn task(tasks: &Tasks, pid: i32) -> &Task {
    let mut all = tasks.tasks.iter();
    all.find(|task| task.pid == pid && !task.idle).unwrap()
}

fn functions(trace: &Trace) -> Vec<&str> {
    let name = |frame: &'_ bigiron_inspect::Frame| frame.symbol.is_some();
    assert!(trace.frames.iter().all(name), "{trace:?}");
    trace
        .frames
        .iter()
        .filter_map(|frame| frame.symbol.as_deref())
        .collect()
}

#[test]
fn all_tasks_and_stacks_of_the_sample_are_read() {
    with_program(&sample(), |program| {
        let tasks = Tasks::of(program).unwrap();
        assert_eq!(tasks.gaps, Vec::<String>::new());
        let idle = tasks.tasks.iter().filter(|task| task.idle).count();
        assert_eq!(idle, run_queues(program).unwrap().len());
        let init = task(&tasks, 1);
        assert_eq!((init.tgid, init.parent), (1, Some(0)));
        assert!(!init.kernel_thread && init.rss_pages.unwrap() > 0);
        let kthreadd = task(&tasks, 2);
        assert_eq!((kthreadd.name.as_str(), kthreadd.state), ("kthreadd", 'S'));
        assert!(kthreadd.kernel_thread && kthreadd.rss_pages.is_none());
        let unwinder = Unwinder::new(program).unwrap();
        assert_eq!(unwinder.without_tables(), None);
        let trace = unwinder.task(kthreadd);
        assert_eq!(
            functions(&trace),
            ["__schedule", "schedule", "kthreadd", "ret_from_fork"]
        );
        for task in &tasks.tasks {
            let trace = unwinder.task(task);
            assert_eq!(trace.cut, None, "{task:?}");
            assert!(trace.frames.iter().all(|frame| frame.sure), "{task:?}");
        }
        if let Some(cpu) = panic_cpu(program) {
            assert!(functions(&unwinder.cpu(cpu)).contains(&"panic"));
        }
    });
}

#[test]
fn cpu_that_a_panic_took_offline_is_found_by_its_registers() {
    let mut bytes = sample();
    let (mask, note, cpus, tasks) = with_program(&bytes, |program| {
        let mask = program.symbol("__cpu_online_mask").unwrap();
        let notes = program.variable("crash_notes", 8).unwrap();
        let note = program.per_cpu_at(VirtAddr(notes), 1).unwrap();
        let cpus = Unwinder::new(program).unwrap().cpus().to_vec();
        let tasks = Tasks::of(program).unwrap().tasks.len();
        (offset(program, mask), offset(program, note), cpus, tasks)
    });
    assert_eq!(cpus, [0, 1]);
    let online = |bytes: &[u8]| {
        with_program(bytes, |program| {
            let cpus = Unwinder::new(program).unwrap().cpus().to_vec();
            (cpus, Tasks::of(program).unwrap().tasks.len())
        })
    };
    put(&mut bytes, mask, 1);
    put(&mut bytes, note, 0);
    // Its idle task is not known either.
    assert_eq!(online(&bytes), (vec![0], tasks - 1));
    put(&mut bytes, note, 336 << 32 | 5);
    assert_eq!(online(&bytes), (cpus, tasks));
}

#[test]
fn cpu_has_its_note_among_those_of_all_when_others_are_offline() {
    let mut bytes = sample();
    let of_second = |bytes: &[u8]| {
        with_program(bytes, |program| {
            let unwinder = Unwinder::new(program).unwrap();
            let calls = unwinder.cpu(1).frames;
            (
                unwinder.cpus().to_vec(),
                calls.iter().map(|call| call.address).collect::<Vec<_>>(),
            )
        })
    };
    let (cpus, calls) = of_second(&bytes);
    assert!(cpus == [0, 1] && !calls.is_empty());
    let mask = with_program(&bytes, |program| {
        offset(program, program.symbol("__cpu_online_mask").unwrap())
    });
    // The first one was stopped by a panic: a hypervisor's dump has its note all the same.
    put(&mut bytes, mask, 2);
    assert_eq!(of_second(&bytes), (vec![1], calls));
}

#[test]
fn cyclic_list_is_read_from_both_ends() {
    let mut bytes = sample();
    let (before, at, next) = with_program(&bytes, |program| {
        let tasks = Tasks::of(program).unwrap();
        let links = program
            .member(task(&tasks, 2).address, "task_struct", "tasks")
            .unwrap();
        (tasks.tasks.len(), offset(program, links), links.0)
    });
    put(&mut bytes, at, next);
    with_program(&bytes, |program| {
        let tasks = Tasks::of(program).unwrap();
        assert_eq!(tasks.tasks.len(), before);
        assert!(tasks.gaps[0].contains("cyclic"), "{:?}", tasks.gaps);
    });
    // Backwards there is nothing either: what is before the damage is left.
    put(&mut bytes, at, 0x10);
    let head = with_program(&bytes, |program| {
        let init = program.symbol("init_task").unwrap();
        offset(
            program,
            program.member(init, "task_struct", "tasks").unwrap(),
        )
    });
    put(&mut bytes, head + 8, 0x10);
    with_program(&bytes, |program| {
        let tasks = Tasks::of(program).unwrap();
        assert!(tasks.tasks.len() < before && task(&tasks, 2).name == "kthreadd");
        assert!(!tasks.gaps.is_empty());
    });
}

#[test]
fn unwind_tables_cover_the_first_instruction_of_module_functions() {
    with_program(&sample(), |program| {
        let orc = Orc::of(program).unwrap();
        let modules = program.modules();
        let (mut checked, mut modules_with_code) = (0, 0);
        for module in &modules.list {
            let symbols = modules.symbols(program, module).iter();
            let code: Vec<_> = symbols
                .filter(|symbol| symbol.kind.eq_ignore_ascii_case(&'t'))
                .filter(|symbol| {
                    let found = modules.at(symbol.address);
                    found.is_some_and(|(found, _)| found.address == module.address)
                })
                // Parts that were put aside begin in the middle of a function.
                .filter(|symbol| !symbol.name.contains(".cold"))
                .collect();
            modules_with_code += usize::from(!code.is_empty());
            for symbol in code {
                let entry = orc.find(program, symbol.address).unwrap().unwrap();
                // There the return address is all that is on the stack.
                let expected = (Base::Register(Register::Sp), 8, Kind::Call);
                let found = (entry.sp, entry.sp_offset, entry.kind);
                assert_eq!(found, expected, "{} [{}]", symbol.name, module.name);
                checked += 1;
            }
        }
        assert!(checked > 100 && modules_with_code > 3, "{checked}");
        for name in ["schedule", "vfs_read", "panic", "do_exit"] {
            let entry = orc.find(program, program.symbol(name).unwrap());
            assert_eq!(entry.unwrap().unwrap().sp_offset, 8, "{name}");
        }
        // What is no code has no entry.
        let data = program.symbol("init_task").unwrap();
        assert_eq!(orc.find(program, data).unwrap(), None);
    });
}

#[test]
fn invalid_stack_or_tables_end_a_trace_with_a_reason() {
    let mut bytes = sample();
    let (sleeper, sp, count, first) = with_program(&bytes, |program| {
        let sleeper = task(&Tasks::of(program).unwrap(), 2).clone();
        let member = program.member(sleeper.address, "task_struct", "thread.sp");
        let start = program.symbol("__start_orc_unwind").unwrap();
        let end = program.symbol("__stop_orc_unwind").unwrap();
        let count = ((end.0 - start.0) / 6) as usize;
        let member = offset(program, member.unwrap());
        (sleeper, member, count, offset(program, start))
    });
    let trace = |bytes: &[u8]| {
        with_program(bytes, |program| {
            Unwinder::new(program).unwrap().task(&sleeper)
        })
    };
    // Each entry: the caller's stack pointer is the own one, and the return address
    // is wherever that points to.
    for (entry, most) in [
        // sp_offset 8 of rsp, a call: every word of the stack is a return address.
        ([8, 0, 0, 0, 0x05, 0x00], 4096),
        // sp_offset 0 of rsp: always the same frame.
        ([0, 0, 0, 0, 0x05, 0x00], 4),
        // No register, no end: only by the calls that the stack tells of.
        ([0, 0, 0, 0, 0x00, 0x00], 4),
        // A register that was not kept.
        ([8, 0, 0, 0, 0x06, 0x00], 1),
    ] {
        let mut damaged = bytes.clone();
        for index in 0..count {
            damaged[first + 6 * index..][..6].copy_from_slice(&entry);
        }
        let found = trace(&damaged);
        assert!(found.cut.is_some(), "{entry:?}");
        assert!(
            found.frames.len() <= most,
            "{entry:?}: {}",
            found.frames.len()
        );
    }
    put(&mut bytes, sp, 0x10);
    with_program(&bytes, |program| {
        let trace = Unwinder::new(program).unwrap().task(&sleeper);
        let reason = trace.cut.unwrap();
        assert!(trace.frames.is_empty() && reason.contains("0x"), "{reason}");
    });
}

#[test]
fn tree_walk_matches_the_list_order_and_survives_cycles() {
    let mut bytes = sample();
    let walk = |program: &Program| {
        let root = program.symbol("vmap_area_root").unwrap();
        program.tree(root, "vmap_area", "rb_node", 1 << 20).unwrap()
    };
    let (items, left) = with_program(&bytes, |program| {
        // Before 6.9 all of them are in one tree and in one list.
        let head = program.symbol("vmap_area_list").unwrap();
        let list = program.list(head, "vmap_area", "list", 1 << 20).unwrap();
        let tree = walk(program);
        assert!(list.items.len() > 100);
        assert_eq!(tree, list);
        let root = program.symbol("vmap_area_root").unwrap();
        let top = program.pointer(root, "rb_root", "rb_node").unwrap();
        let left = program.member(top, "rb_node", "rb_left").unwrap();
        let few = program.tree(root, "vmap_area", "rb_node", 10).unwrap();
        assert!(few.items.len() == 10 && few.cut.is_some());
        (tree.items, (offset(program, left), top))
    });
    put(&mut bytes, left.0, left.1.0);
    with_program(&bytes, |program| {
        let found = walk(program);
        assert!(found.cut.unwrap().contains("cyclic"));
        let all: HashSet<_> = items.iter().collect();
        assert!(!found.items.is_empty() && found.items.len() < items.len());
        assert!(found.items.iter().all(|item| all.contains(item)));
    });
}
