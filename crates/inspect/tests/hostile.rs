//! Kernels that lie about their numbers: walks end after as many steps as the dump's memory can
//! account for, and say what is missing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use bigiron_format::VirtAddr;
use bigiron_inspect::page_class::UNKNOWN;
use bigiron_inspect::{InspectError, PageMap, Program, Tasks};
use bigiron_kernel::page::KindBits;
use bigiron_kernel::{IoMethod, Kernel, SECTION_FRAMES, Source};
use bigiron_synth::{IMAGE, TinyKernel, TinyTypes};

/// Size of a task_struct here.
const TASK: u64 = 96;

fn with_program<T>(kernel: &TinyKernel, work: impl FnOnce(&Program) -> T) -> T {
    let source = Source::from_bytes(Box::new(kernel.elf()), "tiny".into()).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    work(&Program::open(&kernel).unwrap())
}

fn types() -> TinyTypes {
    let mut types = TinyTypes::default();
    let int = types.integer("int", 4);
    let long = types.integer("long", 8);
    let char = types.integer("char", 1);
    let list = types.structure("list_head", 16, &[("next", long, 0), ("prev", long, 8)]);
    let comm = types.array(char, 8);
    let counter = types.structure(
        "percpu_counter",
        16,
        &[("count", long, 0), ("counters", long, 8)],
    );
    let counters = types.array(counter, 4);
    types.structure("mm_struct", 64, &[("rss_stat", counters, 0)]);
    types.structure("signal_struct", 16, &[("thread_head", list, 0)]);
    let members = [
        ("tasks", list, 0),
        ("mm", long, 16),
        ("signal", long, 24),
        ("real_parent", long, 32),
        ("pid", int, 40),
        ("tgid", int, 44),
        ("flags", int, 48),
        ("__state", int, 52),
        ("exit_state", int, 56),
        ("comm", comm, 60),
        ("on_cpu", int, 68),
        ("thread_node", list, 72),
    ];
    types.structure("task_struct", TASK as u32, &members);
    types.structure("rq", 16, &[("curr", long, 0), ("idle", long, 8)]);
    types
}

/// A kernel of `tasks` processes and `cpus` CPUs. All memory for counters is one page, and so is
/// that of all CPUs, whose areas are `distance` bytes apart.
fn kernel(tasks: u64, cpus: u64, distance: u64) -> TinyKernel {
    let mut kernel = TinyKernel::default();
    // Each word of the page points to another view of it; as a counter it is a negative number.
    let page = kernel.next();
    let shown = kernel.alias(page);
    let words: Vec<u64> = (0..512).map(|index| shown + 4096 * index).collect();
    assert_eq!(kernel.put_words(&words), page);
    let offsets: Vec<u64> = (0..cpus).map(|cpu| cpu * distance).collect();
    let offsets = kernel.put_words(&offsets);
    let mask = kernel.put(&vec![0xff; cpus.div_ceil(8) as usize]);
    let ids = kernel.put_words(&[cpus]);
    let signal = kernel.next();
    kernel.put_words(&[signal, signal]);
    let first = kernel.next();
    let at = |index: u64| first + index % tasks * TASK;
    let mut bytes = Vec::new();
    for index in 0..tasks {
        let words = [
            at(index + 1),
            at(index + tasks - 1),
            shown + 8 * index,
            signal,
            first,
            index << 32 | index,
            0,
            u64::from_le_bytes(*b"\0\0\0\0task"),
            0,
            0,
            0,
            0,
        ];
        bytes.extend(words);
    }
    kernel.put_words(&bytes);
    let queue = kernel.put_words(&[0, first]);
    let symbols = [
        ("Dinit_task", first),
        ("D__cpu_online_mask", mask),
        ("Dnr_cpu_ids", ids),
        ("D__per_cpu_offset", offsets),
        ("Drunqueues", queue),
    ];
    kernel.names(&types(), &symbols);
    kernel
}

#[test]
fn per_cpu_counters_beyond_the_dumps_memory_are_not_added() {
    const TASKS: u64 = 300;
    const CPUS: u64 = 8192;
    let kernel = kernel(TASKS, CPUS, 1 << 20);
    let most = kernel.memory.len().next_multiple_of(4096) as u64 / 4;
    with_program(&kernel, |program| {
        let tasks = Tasks::of(program).unwrap();
        assert_eq!(tasks.tasks.len() as u64, TASKS);
        let known = tasks.tasks.iter().filter(|task| task.rss_pages.is_some());
        // Of file and anonymous pages.
        let added = 2 * CPUS * known.count() as u64;
        assert!(added <= most, "{added} of at most {most} counters");
        let reason = tasks.gaps.iter().find(|gap| gap.contains("not computed"));
        let reason = reason.unwrap_or_else(|| panic!("{:?}", tasks.gaps));
        assert!(reason.contains("8192 CPUs"), "{reason}");
    });
}

#[test]
fn cpus_without_memory_of_their_own_do_not_count() {
    let kernel = kernel(50, 65536, 0);
    with_program(&kernel, |program| {
        let tasks = Tasks::of(program).unwrap();
        assert_eq!(tasks.tasks.len(), 50);
        assert!(tasks.tasks.iter().all(|task| task.rss_pages.is_some()));
        let gap = "65535 of 65536 have no per-CPU memory of their own";
        assert!(
            tasks.gaps.iter().any(|text| text.contains(gap)),
            "{:?}",
            tasks.gaps
        );
    });
}

#[test]
fn reads_are_bounded_by_the_dumps_memory_until_renewed() {
    let kernel = kernel(1, 1, 0);
    let most = (1 << 20) + kernel.memory.len().next_multiple_of(4096) / 8;
    with_program(&kernel, |program| {
        let program = program.renewed();
        let at = program.symbol("init_task").unwrap();
        let mut reads = 0;
        let error = loop {
            match program.number(at, 8) {
                Ok(_) => reads += 1,
                Err(error) => break error,
            }
            assert!(reads <= most, "reads without end");
        };
        assert_eq!(reads, most);
        assert!(matches!(error, InspectError::TooManySteps), "{error}");
        assert!(program.string(at, 8).is_err());
        assert!(program.cpus_in(VirtAddr(at.0)).is_err());
        assert!(program.renewed().number(at, 8).is_ok());
    });
}

#[test]
fn struct_pages_of_more_memory_than_the_dump_can_describe_are_not_read() {
    let mut kernel = TinyKernel::default();
    let page = kernel.next();
    let shown = kernel.alias(page);
    // Each word is a section with struct pages, and a struct page is any eight of them.
    assert_eq!(kernel.put_words(&[shown | 2; 512]), page);
    kernel.ram = 64 << 30;
    kernel.info(&format!(
        "SYMBOL(mem_section)={shown:x}\nSIZE(mem_section)=8\nSIZE(page)=64\n\
         OFFSET(page.flags)=0\nOFFSET(page._refcount)=52\nOFFSET(page.mapping)=24\n\
         OFFSET(page.lru)=8\nOFFSET(page._mapcount)=48\nOFFSET(page.private)=40\n\
         NUMBER(PG_lru)=4\nNUMBER(PG_private)=13\nNUMBER(PG_swapcache)=10\n\
         NUMBER(PG_slab)=9\nNUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)=-129\n"
    ));
    let memory = kernel.memory.len() as u64;
    let source = Source::from_bytes(Box::new(kernel.elf()), "tiny".into()).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    let map = PageMap::of(&kernel, KindBits::default(), IoMethod::Auto).unwrap();
    assert_eq!(map.total.ram, (64 << 30) / 4096);
    let known = map.total.ram - map.total.counts[UNKNOWN];
    let most = (256 + memory.div_ceil(32 << 10)) * SECTION_FRAMES;
    assert!(
        0 < known && known <= most,
        "{known} of at most {most} struct pages"
    );
    let gap = "too few pages to hold the struct pages";
    assert!(
        map.warnings.iter().any(|text| text.contains(gap)),
        "{:?}",
        map.warnings
    );
}

#[test]
fn kernel_without_types_has_its_symbols_only() {
    let mut kernel = TinyKernel::default();
    kernel.symbols(&[("T_stext", IMAGE), ("Tschedule", IMAGE + 64)]);
    let source = Source::from_bytes(Box::new(kernel.elf()), "tiny".into()).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    let error = Program::open(&kernel).err();
    assert!(matches!(error, Some(InspectError::NoTypes)), "{error:?}");
    let program = Program::open_symbols(&kernel).unwrap();
    assert!(matches!(program.has_types(), Err(InspectError::NoTypes)));
    let found = program.symbol_at(VirtAddr(IMAGE + 70)).unwrap();
    assert_eq!((found.symbol.name, found.offset), ("schedule", 6));
}
