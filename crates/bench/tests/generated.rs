//! Compares the generated machine with the filter. Both determine the class of every page frame
//! independently.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use bigiron_bench::generated::{FrameClass, GeneratedMachine, MachineOptions, Mixture};
use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_kernel::{
    DumpLevel, ExcludedCounts, Filter, IoMethod, Kernel, MemorySource, SECTION_FRAMES, zones,
};

fn kernel(machine: &GeneratedMachine) -> Kernel<'_> {
    Kernel::find_in(machine, machine.path(), None, IoMethod::Auto, 64).unwrap()
}

/// True if a dump of `level` keeps a page of `class` (makedumpfile(8), -d).
fn is_kept(class: FrameClass, level: u8) -> bool {
    match class {
        FrameClass::Kernel => true,
        FrameClass::Free => level & 16 == 0,
        FrameClass::Cache => level & 6 == 0,
        FrameClass::CachePrivate => level & 4 == 0,
        FrameClass::User => level & 8 == 0,
    }
}

/// Runs the filter over all of `machine`, and `check` on the bits of each section.
fn filter(
    machine: &GeneratedMachine,
    level: u8,
    mut check: impl FnMut(PageFrame, &Bitmap, &Bitmap),
) -> (u64, ExcludedCounts) {
    let kernel = kernel(machine);
    let filter = Filter::new(&kernel, DumpLevel::new(level).unwrap()).unwrap();
    let mut reader = machine.reader(IoMethod::Auto);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut kept = Bitmap::new(SECTION_FRAMES as usize);
    let (mut scanned, mut excluded) = (0, ExcludedCounts::default());
    let mut next = machine.next_section(PageFrame(0));
    while let Some(first) = next {
        let chunk = filter
            .scan_section(reader.as_mut(), first, &mut ram, &mut kept)
            .unwrap();
        assert_eq!(chunk.unreadable, 0);
        check(first, &ram, &kept);
        scanned += chunk.scanned;
        excluded.add(&chunk.excluded);
        next = machine.next_section(PageFrame(first.0 + SECTION_FRAMES));
    }
    (scanned, excluded)
}

#[test]
fn filter_keeps_the_same_pages_as_the_generator_at_every_level() {
    let machine = GeneratedMachine::new(MachineOptions::whole(4 << 30));
    for level in [0, 1, 2, 4, 8, 16, 31] {
        let mut ram_frames = 0;
        filter(&machine, level, |first, ram, kept| {
            for bit in 0..SECTION_FRAMES {
                let frame = PageFrame(first.0 + bit);
                let class = machine.class(frame);
                assert_eq!(ram.get(bit as usize), class.is_some(), "{frame}");
                let expected = class.is_some_and(|class| is_kept(class, level));
                let found = kept.get(bit as usize);
                assert_eq!(found, expected, "level {level}, {frame}: {class:?}");
            }
            ram_frames += ram.count();
        });
        assert_eq!(ram_frames, machine.ram_frames());
        assert_eq!(ram_frames << 12, 4 << 30);
    }
}

#[test]
fn every_class_occurs_and_the_counts_agree() {
    let options = MachineOptions {
        seed: 7,
        ..MachineOptions::whole(4 << 30)
    };
    let machine = GeneratedMachine::new(options);
    let counts = machine.present_counts();
    let (scanned, excluded) = filter(&machine, 31, |_, _, _| {});
    assert_eq!(scanned, machine.ram_frames());
    assert_eq!(excluded.free, counts.free);
    assert_eq!(excluded.cache, counts.cache);
    assert_eq!(excluded.cache_private, counts.cache_private);
    assert_eq!(excluded.user, counts.user);
    assert_eq!(excluded.total() + counts.kernel, machine.ram_frames());
    for count in [counts.kernel, counts.free, counts.cache, counts.user] {
        assert!(count > machine.ram_frames() / 50, "{counts:?}");
    }
    assert!(counts.cache_private > 0);
    let free = zones::free_pages(&kernel(&machine)).unwrap();
    assert_eq!(free, Some(counts.free));
}

#[test]
fn sampled_machine_has_all_sections_and_equal_counts() {
    let options = MachineOptions {
        kept_data_every: 4,
        struct_pages_every: 2,
        ..MachineOptions::whole(8 << 30)
    };
    let machine = GeneratedMachine::new(options);
    let counts = machine.present_counts();
    let mut kept_pages = 0;
    let mut chunks = 0;
    let (_, excluded) = filter(&machine, 31, |_, _, kept| {
        kept_pages += kept.count();
        chunks += 1;
    });
    assert_eq!(chunks, machine.ram_frames() / SECTION_FRAMES);
    assert_eq!(kept_pages, counts.kernel);
    assert_eq!(excluded.user, counts.user);
    assert_eq!(excluded.free, counts.free);
    assert_eq!(excluded.total() + kept_pages, machine.ram_frames());
    assert!(excluded.absent > machine.ram_frames() / 3);
}

#[test]
fn pages_are_equal_in_reads_of_any_size() {
    let machine = GeneratedMachine::new(MachineOptions::whole(1 << 30));
    let (mut long, mut short) = (
        machine.reader(IoMethod::Auto),
        machine.reader(IoMethod::Auto),
    );
    // Tables, ordinary memory, the memory map and its end.
    for first in [
        0, 0x1000, 0x1400, 0x1ff0, 0x4000, 0x5f31, 0x10_0000, 0x10_0ff0,
    ] {
        let pages = long.pages(PageFrame(first), 300).unwrap();
        for (frame, page) in (first..).zip(pages.chunks_exact(4096)) {
            let single = short.pages(PageFrame(frame), 1).unwrap();
            assert!(single == page, "page frame {frame:#x}");
        }
    }
    let hole = long.pages(PageFrame(0x4_0000 * 3), 1).unwrap_err();
    assert!(hole.is_one_page());
}

#[test]
fn largest_machine_has_a_kernel() {
    let options = MachineOptions {
        struct_pages_every: 1 << 12,
        mixture: Mixture::DATABASE,
        ..MachineOptions::whole(32 << 40)
    };
    let machine = GeneratedMachine::new(options);
    assert_eq!(machine.ram_frames(), 1 << 33);
    assert!(machine.end_frame().0 <= 1 << 34);
    let kernel = kernel(&machine);
    assert_eq!(kernel.utsname().release(), "6.12.0-generated");
    let filter = Filter::new(&kernel, DumpLevel::MAX).unwrap();
    let mut reader = machine.reader(IoMethod::Auto);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut kept = Bitmap::new(SECTION_FRAMES as usize);
    let last = PageFrame(machine.end_frame().0 - SECTION_FRAMES);
    filter
        .scan_section(reader.as_mut(), last, &mut ram, &mut kept)
        .unwrap();
    for bit in 0..SECTION_FRAMES {
        let class = machine.class(PageFrame(last.0 + bit)).unwrap();
        assert_eq!(kept.get(bit as usize), is_kept(class, 31));
    }
}
