//! A process of the real vmcore in samples/: what it has mapped, its registers and its stack.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod sample;

use bigiron_format::VirtAddr;
use bigiron_inspect::UserProcess;

use sample::{offset, sample, with_program};

/// PID of the first process, and of a kernel thread.
const FIRST: i32 = 1;
const KTHREADD: i32 = 2;
/// The lowest bits of a pointer to a node of a maple tree (MAPLE_NODE_MASK), and what they are for a
/// maple_arange_64 that is a tree's root.
const NODE_MASK: u64 = 0xff;
const INNER: u64 = 3 << 3 | 2;

#[test]
fn first_process_has_its_program_and_a_stack_in_it() {
    with_program(&sample(), |program| {
        let found = UserProcess::of(program, FIRST).unwrap();
        assert_eq!(found.gaps, Vec::<String>::new());
        assert_eq!(found.task.name, "init");
        let mappings = &found.mappings;
        for name in ["[heap]", "[stack]", "[vdso]"] {
            let named = mappings
                .iter()
                .filter(|one| one.name.as_deref() == Some(name));
            assert_eq!(named.count(), 1, "{name}: {mappings:?}");
        }
        assert!(mappings.iter().all(|one| one.start < one.end));
        assert!(mappings.windows(2).all(|pair| pair[0].end <= pair[1].start));
        let [thread] = found.threads.as_slice() else {
            panic!("{:?}", found.threads);
        };
        let registers = thread.registers.as_ref().unwrap();
        let in_mapping = |name: &str| {
            let value = registers.get(name).unwrap();
            mappings.iter().find(|one| one.holds(value)).unwrap()
        };
        assert!(in_mapping("ip").is_code());
        assert_eq!(in_mapping("sp").name.as_deref(), Some("[stack]"));
        let first = thread.frames.first().unwrap();
        assert_eq!(Some(first.address.0), registers.get("ip"));
        assert!(
            first.place.as_deref().unwrap().contains("busybox+0x"),
            "{first:?}"
        );
    });
}

#[test]
fn tasks_without_user_memory_are_refused_with_the_reason() {
    with_program(&sample(), |program| {
        let refused = |pid| UserProcess::of(program, pid).unwrap_err().to_string();
        assert!(refused(KTHREADD).contains("kernel thread"));
        assert!(refused(999_999).contains("no task has the PID 999999"));
    });
}

#[test]
fn cyclic_tree_of_mappings_ends_with_a_gap() {
    let mut bytes = sample();
    let (places, node) = with_program(&bytes, |program| {
        let task = UserProcess::of(program, FIRST).unwrap().task.address;
        let memory = program.pointer(task, "task_struct", "mm").unwrap();
        let root = program
            .member(memory, "mm_struct", "mm_mt.ma_root")
            .unwrap();
        let node = program.number(root, 8).unwrap() & !NODE_MASK;
        let slots = program.locate("maple_arange_64", "slot").unwrap().offset;
        let places = [root, VirtAddr(node + slots)];
        (places.map(|at| offset(program, at)), node | INNER)
    });
    for at in places {
        bytes[at..at + 8].copy_from_slice(&node.to_le_bytes());
    }
    with_program(&bytes, |program| {
        let gaps = UserProcess::of(program, FIRST).unwrap().gaps;
        assert!(gaps.iter().any(|gap| gap.contains("cyclic")), "{gaps:?}");
    });
}
