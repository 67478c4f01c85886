//! Struct pages that lie about the kernel's own memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::path::PathBuf;

use bigiron_format::VirtAddr;
use bigiron_kernel::{IoMethod, Kernel, Source};
use bigiron_synth::{ElfShape, Machine, NamedMachine, Synth};
use common::kept::kept;

/// Builds a machine with 32 MiB of RAM and a page frame of each class; returns those page frames.
fn machine(text: &str, page_shift: u32, start: u64) -> (Machine, Vec<u64>) {
    let base = start >> page_shift;
    let mut all = format!(
        "{text}\nlog lockless n=20\nram {base:#x}-{:#x}\n",
        base + (0x200_0000 >> page_shift) - 1
    );
    let names = ["anon", "cache", "cache private", "free"];
    for (frame, name) in (base + 0x180..).zip(names) {
        all += &format!("pages {frame:#x} {name}\n");
    }
    all += &format!("pages {:#x} kernel n=16\n", base + 0x190);
    let machine = Synth::from_text(&all).unwrap_or_else(|error| panic!("{all}: {error}"));
    (machine, (base + 0x180..base + 0x184).collect())
}

/// Makes the struct pages of `frames` look like those of `classes`, one after the other.
fn lie(machine: &mut Machine, frames: &[u64], classes: &[u64]) {
    for (frame, class) in frames.iter().zip(classes.iter().cycle()) {
        let truth = machine.struct_page(*class).unwrap();
        let bytes = machine.read(truth, 64).unwrap();
        let place = machine.struct_page(*frame).unwrap();
        machine.write(place, &bytes).unwrap();
    }
}

fn with_kernel<T>(machine: &Machine, check: impl FnOnce(&Kernel) -> T) -> T {
    let core = Box::new(machine.elf(&ElfShape::vmcore()));
    let source = Source::from_bytes(core, PathBuf::from("core")).unwrap();
    check(&Kernel::find(&source, None, IoMethod::Read, 64).unwrap())
}

/// Returns the page frames that a level does not keep.
fn lost(machine: &Machine, level: u8, frames: &[u64]) -> Vec<u64> {
    let kept = with_kernel(machine, |kernel| kept(kernel, level, IoMethod::Read));
    let is_lost = |frame: &&u64| !kept[**frame as usize];
    frames.iter().filter(is_lost).copied().collect()
}

/// The page frames that a kernel without symbols can tell.
fn own_frames(machine: &Machine) -> Vec<u64> {
    let size = machine.page_size();
    // No symbol leads to the text of VMCOREINFO, and on most architectures none to the nodes.
    let text = machine.vmcoreinfo_page().map(|at| at / size);
    let has_nodes = machine.vmcoreinfo().contains("SYMBOL(node_data)=");
    let nodes = machine.node_frames();
    let is_node = |frame: &u64| nodes.iter().any(|node| node.contains(frame));
    let is_own = |frame: &u64| Some(*frame) != text && (has_nodes || !is_node(frame));
    machine.built_frames().filter(is_own).collect()
}

#[test]
fn no_level_loses_what_the_kernel_uses_itself() {
    let machines = [
        ("kernel 6.12", 12, 0),
        ("kernel 5.15 levels=5", 12, 0),
        ("kernel 4.19", 12, 0),
        ("arch arm64 bits=48\nkernel 6.12", 12, 1 << 30),
        ("arch arm64 pages=64k bits=52\nkernel 6.12", 16, 1 << 30),
        ("arch riscv64 bits=48\nkernel 6.12", 12, 2 << 30),
    ];
    for (text, page_shift, start) in machines {
        let (mut machine, classes) = machine(text, page_shift, start);
        let frames = own_frames(&machine);
        assert!(frames.len() > 8, "{text}");
        lie(&mut machine, &frames, &classes);
        for level in [2, 8, 16, 31] {
            assert_eq!(
                lost(&machine, level, &frames),
                [0; 0],
                "{text}, level {level}"
            );
        }
        // What tells the truth is excluded as ever.
        assert_eq!(lost(&machine, 31, &classes), classes, "{text}");
    }
}

#[test]
fn counts_are_of_what_is_excluded_and_name_what_was_kept() {
    use bigiron_format::bitmap::Bitmap;
    use bigiron_kernel::{DumpLevel, Filter, GuardedUse, SECTION_FRAMES};
    let (honest, classes) = machine("kernel 6.12", 12, 0);
    let count = |machine: &Machine| {
        with_kernel(machine, |kernel| {
            let filter = Filter::new(kernel, DumpLevel::MAX).unwrap();
            let mut reader = kernel.source().reader(IoMethod::Read);
            let mut ram = Bitmap::new(SECTION_FRAMES as usize);
            let mut kept = ram.clone();
            let first = kernel.source().sections().next().unwrap();
            let result = filter.scan_section(reader.as_mut(), first, &mut ram, &mut kept);
            result.unwrap()
        })
    };
    let before = count(&honest);
    assert_eq!(before.guarded.iter().count(), 0);
    let mut lying = honest.clone();
    let table = lying.top_table() / 4096;
    let map = lying.struct_page(0).unwrap() / 4096;
    lie(&mut lying, &[table, map], &classes);
    let after = count(&lying);
    let guarded: Vec<_> = after.guarded.iter().collect();
    let expected = [(GuardedUse::ImageMapping, 1), (GuardedUse::MemMap, 1)];
    assert_eq!(guarded, expected);
    assert_eq!(after.excluded, before.excluded);
    assert_eq!(after.kept, before.kept);
}

#[test]
fn broken_memory_is_not_read_whatever_the_kernel_uses_it_for() {
    let (mut machine, _) = machine("kernel 6.12", 12, 0);
    let frame = machine.struct_page(0).unwrap() / 4096;
    let poison = with_kernel(&machine, |kernel| kernel.info().number("PG_hwpoison"));
    let place = machine.struct_page(frame).unwrap();
    let flags = machine.read(place, 8).unwrap();
    let flags = u64::from_le_bytes(flags.try_into().unwrap()) | 1 << poison.unwrap();
    machine.write(place, &flags.to_le_bytes()).unwrap();
    assert_eq!(lost(&machine, 31, &[frame]), [frame]);
}

#[test]
fn stacks_are_told_by_their_size_and_the_holes_around_them() {
    for (pages, is_stack) in [(4, true), (3, false)] {
        let (mut machine, classes) = machine(&format!("kernel 6.12 vmalloc={pages}"), 12, 0);
        let number = |kernel: &Kernel| kernel.info().number("VMALLOC_START");
        let start = with_kernel(&machine, number).unwrap().cast_unsigned();
        // The memory map lies behind vmalloc's area.
        let area = start + (4 << 30)..start + (6 << 30);
        let mappings = machine.mappings().iter();
        let frames: Vec<u64> = mappings
            .filter(|mapping| area.contains(&mapping.virt.start))
            .map(|mapping| mapping.paddr / 4096)
            .collect();
        assert_eq!(frames.len(), pages);
        lie(&mut machine, &frames, &classes);
        let expected = if is_stack { Vec::new() } else { frames.clone() };
        assert_eq!(lost(&machine, 31, &frames), expected, "{pages} pages");
    }
}

#[test]
fn symbols_tell_the_parts_of_the_image_and_what_each_cpu_has() {
    let (machine, classes) = machine("kernel 6.12", 12, 0);
    let data = classes[0] + 0x10;
    let (image, physical) = machine.image();
    let freed = image.end - 0x4000..image.end - 0x2000;
    let direct = machine.page_offset();
    let mut named = NamedMachine::new(machine, data).unwrap();
    // A CPU's variables, and the text of VMCOREINFO, where the kernel would have allocated them.
    let (area, text) = (classes[0] + 0x40, classes[0] + 0x50);
    let template = image.start + 0x8000;
    let offset = (direct + area * 4096).wrapping_sub(template);
    let offsets = named.put(&offset.to_le_bytes()).unwrap();
    let cpus = named.put(&1_u32.to_le_bytes()).unwrap();
    let pointer = named.put(&(direct + text * 4096).to_le_bytes()).unwrap();
    let symbols = [
        ("D__bss_stop", image.end),
        ("D__init_begin", freed.start),
        ("D__init_end", freed.end),
        ("D__per_cpu_start", template),
        ("D__per_cpu_end", template + 0x1800),
        ("D__per_cpu_offset", offsets),
        ("Dnr_cpu_ids", cpus),
        ("Dvmcoreinfo_note", pointer),
    ];
    named.names(&[0; 64], &symbols).unwrap();
    let mut machine = named.machine();
    let image: Vec<u64> = (physical.start / 4096..physical.end / 4096).collect();
    let (used, freed): (Vec<u64>, Vec<u64>) = image.iter().partition(|frame| {
        let from_end = physical.end / 4096 - **frame;
        !(3..=4).contains(&from_end)
    });
    assert_eq!(freed.len(), 2);
    lie(&mut machine, &image, &classes);
    let others = [area, area + 1, text, text + 1, area + 2, text + 2];
    lie(&mut machine, &others, &classes);
    assert_eq!(lost(&machine, 31, &used), [0; 0]);
    assert_eq!(lost(&machine, 31, &freed), freed);
    assert_eq!(lost(&machine, 31, &others), [area + 2, text + 2]);
}

#[test]
fn tables_that_lead_to_each_other_are_visited_once() {
    let (mut machine, classes) = machine("kernel 6.12", 12, 0);
    // Each free entry of the kernel's half leads back to the table itself.
    let top = machine.top_table();
    for index in 256..512_u64 {
        let place = top + index * 8;
        if machine.read(place, 8).unwrap() == [0; 8] {
            machine.write(place, &(top | 0x63).to_le_bytes()).unwrap();
        }
    }
    let frames = [machine.struct_page(0).unwrap() / 4096];
    lie(&mut machine, &frames, &classes);
    assert_eq!(lost(&machine, 31, &frames), [0; 0]);
    let at = VirtAddr(machine.struct_page_vaddr(0));
    with_kernel(&machine, |kernel| {
        assert!(kernel.translate(at).unwrap().is_some());
    });
}
