//! Address translation and the filter on machines of every architecture, whose mappings and pages
//! bigiron-synth knows.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::path::PathBuf;

use bigiron_format::VirtAddr;
#[cfg(feature = "images")]
use bigiron_format::image::MemoryMap;
use bigiron_kernel::arch::find;
use bigiron_kernel::{IoMethod, Kernel, Source};
use bigiron_synth::{ByteOrder, ElfShape, Machine, Synth, Vaddr};
use common::kept::kept;

/// Machines of all architectures, page sizes and layouts of page tables.
const MACHINES: &[&str] = &[
    "arch arm64 bits=39\nkernel 6.1",
    "arch arm64 bits=48\nkernel 4.19",
    "arch arm64 bits=48\nkernel 6.12",
    "arch arm64 bits=52\nkernel 6.12",
    "arch arm64 bits=52 hardware_bits=48\nkernel 6.12",
    "arch arm64 pages=16k bits=36\nkernel 6.1",
    "arch arm64 pages=16k bits=47\nkernel 6.12",
    "arch arm64 pages=16k bits=48\nkernel 6.1",
    "arch arm64 pages=16k bits=52\nkernel 6.12",
    "arch arm64 pages=64k bits=42\nkernel 6.1",
    "arch arm64 pages=64k bits=48\nkernel 5.15",
    "arch arm64 pages=64k bits=52\nkernel 6.12",
    "arch arm64 pages=64k bits=52 hardware_bits=48\nkernel 7.1",
    "arch s390x\nkernel 6.1",
    "arch s390x\nkernel 6.12 levels=3 kaslr=0x100000 page_offset=0x80000000 vmcoreinfo=page",
    "arch s390x\nkernel 6.12 levels=4 kaslr=0x100000 vmcoreinfo=page",
    "arch s390x\nkernel 7.1 levels=5",
    "arch riscv64 bits=39\nkernel 6.6",
    "arch riscv64 bits=48\nkernel 6.1",
    "arch riscv64 bits=57\nkernel 6.12",
    "arch riscv64 bits=57\nkernel 6.12 vmemmap_leaf=64k",
    "arch ppc64le\nkernel 5.15",
    "arch ppc64le\nkernel 6.12",
    "arch ppc64le pages=4k\nkernel 6.12",
    "arch ppc64le mmu=hash\nkernel 4.19 vmemmap_leaf=16m",
    "arch ppc64le mmu=hash\nkernel 6.1 vmemmap_leaf=64k",
    "arch ppc64le pages=4k mmu=hash\nkernel 6.12",
    "arch ppc64\nkernel 6.12",
    "arch ppc64 mmu=hash\nkernel 6.1",
    "arch loongarch64\nkernel 6.12",
    "arch loongarch64 pages=64k\nkernel 6.6",
];

/// Builds a machine with 64 MiB of RAM from 1 GiB on, and pages of all classes.
fn machine(text: &str) -> Machine {
    let page_shift = match text {
        _ if text.contains("pages=64k") => 16,
        _ if text.contains("pages=16k") => 14,
        _ if text.contains("pages=4k") => 12,
        _ if text.starts_with("arch ppc64") => 16,
        _ if text.starts_with("arch loongarch64") => 14,
        _ => 12,
    };
    let start = match text {
        _ if text.starts_with("arch arm64") => 1_u64 << 30,
        _ if text.starts_with("arch riscv64") => 2 << 30,
        _ => 0,
    };
    let base = start >> page_shift;
    let mut all = format!(
        "{text}\nram {base:#x}-{:#x}\n",
        base + (0x400_0000 >> page_shift) - 1
    );
    let pages = [
        (0x200, "free order=5"),
        (0x240, "cache n=16"),
        (0x260, "cache private n=4"),
        (0x280, "anon n=70"),
        (0x300, "slab order=2 n=3"),
        (0x310, "hugetlb order=4"),
    ];
    for (frame, what) in pages {
        all += &format!("pages {:#x} {what}\n", base + frame);
    }
    // The others have no CONFIG_MEMORY_FAILURE.
    if text.starts_with("arch arm64") || text.starts_with("arch ppc64") {
        all += &format!("pages {:#x} hwpoison n=2\n", base + 0x320);
    }
    // The page type of offline memory is there since 5.0.
    if !text.contains("kernel 4.19") {
        all += &format!("pages {:#x} offline n=3\n", base + 0x324);
    }
    if page_shift < 16 {
        all += &format!(
            "pages {:#x} thp ; {:#x} hugetlb\n",
            base + 0x600,
            base + 0x800
        );
    }
    Synth::from_text(&all).unwrap_or_else(|error| panic!("{all}: {error}"))
}

fn shapes(text: &str) -> [(&'static str, ElfShape); 3] {
    let qemu = ElfShape {
        vaddr: Vaddr::Physical,
        qemu_notes: false,
        // As QEMU 7.2 does.
        headers: text.starts_with("arch ppc64le").then_some(ByteOrder::Big),
        ..ElfShape::qemu()
    };
    let zero = ElfShape {
        vaddr: Vaddr::Zero,
        ..qemu
    };
    [
        ("vmcore", ElfShape::vmcore()),
        ("qemu", qemu),
        ("zero", zero),
    ]
}

/// Passes the kernel in a dump of each machine to `check`, the shapes of dumps in turn.
fn with_each(check: impl Fn(&Machine, &Kernel, &str)) {
    for (index, text) in MACHINES.iter().enumerate() {
        let machine = machine(text);
        let (shape, elf) = shapes(text)[index % 3];
        let name = format!("{text}\n{shape}");
        let source = Source::from_bytes(Box::new(machine.elf(&elf)), PathBuf::from("core"));
        let source = source.unwrap_or_else(|error| panic!("{name}: {error}"));
        let kernel = Kernel::find(&source, None, IoMethod::Read, 64);
        let kernel = kernel.unwrap_or_else(|error| panic!("{name}: {error}"));
        check(&machine, &kernel, &name);
    }
}

#[test]
fn every_mapping_is_translated_to_its_end_and_nothing_else_is_mapped() {
    with_each(|machine, kernel, name| {
        let page_size = 1 << kernel.source().page_shift();
        assert_eq!(page_size, machine.page_size(), "{name}");
        for mapping in machine.mappings() {
            let len = mapping.virt.end.wrapping_sub(mapping.virt.start);
            let mut offset = 0;
            while offset < len {
                let at = VirtAddr(mapping.virt.start + offset);
                let leaf = kernel.translate(at).unwrap();
                let leaf = leaf.unwrap_or_else(|| panic!("{name}: {at} is not mapped"));
                let expected = mapping.paddr + offset;
                assert_eq!(leaf.physical.0, expected, "{name}: {at}");
                assert!(leaf.len > 0);
                offset += leaf.len;
            }
        }
        let unmapped = [0x1000, u64::MAX >> 1, u64::MAX - 0xfff];
        let is_mapped = |at: &u64| machine.mappings().iter().any(|m| m.virt.contains(at));
        for at in unmapped.into_iter().filter(|at| !is_mapped(at)) {
            let found = kernel.translate(VirtAddr(at)).unwrap();
            assert_eq!(found, None, "{name}: {at:#x}");
        }
        let named = kernel.utsname().machine();
        assert_eq!(named, kernel.source().machine(), "{name}");
        assert_eq!(find(named).unwrap().name, kernel.architecture().name);
    });
}

#[test]
fn every_level_keeps_the_expected_pages_with_every_page_size_and_byte_order() {
    with_each(|machine, kernel, name| {
        for level in [0, 2, 12, 31] {
            let ours = kept(kernel, level, IoMethod::Read);
            let expected = machine.expected_dumpable(level);
            let frames = ours.len().max(expected.len());
            let bit = |bits: &[bool], frame| bits.get(frame).copied().unwrap_or(false);
            let different = (0..frames).find(|n| bit(&ours, *n) != bit(&expected, *n));
            assert_eq!(different, None, "{name}, level {level}");
        }
    });
}

#[cfg(feature = "images")]
#[test]
fn a_memory_image_is_read_as_the_machine_that_its_kernel_names() {
    for (index, text) in MACHINES.iter().enumerate() {
        let machine = machine(text);
        let (raw, map) = machine.raw_image();
        let path = PathBuf::from("image");
        let source = match index % 4 {
            0 => Source::from_bytes(Box::new(machine.lime_image()), path),
            1 => Source::from_bytes(Box::new(machine.avml_image()), path),
            2 if map.starts_with("00000000-") => {
                Source::from_image_bytes(Box::new(raw), path, None)
            }
            _ => {
                let map = MemoryMap::parse(map.as_bytes()).unwrap();
                Source::from_image_bytes(Box::new(raw), path, Some(&map))
            }
        };
        let source = source.unwrap_or_else(|error| panic!("{text}: {error}"));
        let kernel = Kernel::find(&source, None, IoMethod::Read, 64);
        let kernel = kernel.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(kernel.found_in_memory());
        let core = Source::from_bytes(Box::new(machine.elf(&ElfShape::vmcore())), "core".into());
        let core = core.unwrap();
        let same = Kernel::find(&core, None, IoMethod::Read, 64).unwrap();
        assert_eq!(kernel.utsname(), same.utsname(), "{text}");
        assert_eq!(kernel.source().endian(), same.source().endian(), "{text}");
        for level in [0, 31] {
            let (ours, expected) = (
                kept(&kernel, level, IoMethod::Read),
                kept(&same, level, IoMethod::Read),
            );
            // AVML leaves out 16 MiB of zeros.
            let is_left_out = |frame: usize| {
                let page = machine.page(frame as u64).unwrap_or_default();
                index % 4 == 1 && page.iter().all(|byte| *byte == 0)
            };
            for frame in 0..ours.len().max(expected.len()) {
                let bit = |bits: &[bool]| bits.get(frame).copied().unwrap_or(false);
                assert!(
                    bit(&ours) == bit(&expected) || !bit(&ours) && is_left_out(frame),
                    "{text}, level {level}, page frame {frame:#x}"
                );
            }
        }
    }
}

#[cfg(feature = "images")]
#[test]
fn an_image_without_a_kernel_is_refused_with_what_was_looked_for() {
    let open = |bytes: Vec<u8>| {
        let source = Source::from_image_bytes(Box::new(bytes), PathBuf::from("image"), None);
        source.err().unwrap().to_string()
    };
    let error = open(vec![0; 1 << 20]);
    assert!(error.contains("OSRELEASE="), "{error}");
    // The same memory at other addresses.
    let (mut raw, _) = machine("arch riscv64 bits=48\nkernel 6.1").raw_image();
    let error = open(raw.clone());
    assert!(
        error.contains("--memory-map") && error.contains("Linux 6.1"),
        "{error}"
    );
    raw.truncate(4096);
    let map = MemoryMap::parse(b"0-7ff").unwrap();
    let source = Source::from_image_bytes(Box::new(raw), PathBuf::from("image"), Some(&map));
    assert!(source.err().unwrap().to_string().contains("more bytes"));
}
