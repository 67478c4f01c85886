//! The filter against machines whose every page is known, for all kernels
//! that bigiron-synth can build.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::io::Write;

use bigiron_kernel::{IoMethod, Kernel, Source, zones};
use bigiron_synth::{ElfShape, Machine, Synth, presets, random_machine};
use common::kept::kept;

fn open(bytes: &[u8]) -> (tempfile::NamedTempFile, Source) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let source = Source::open(&[file.path().to_owned()]).unwrap();
    (file, source)
}

fn first_difference(machine: &Machine, ours: &[bool], expected: &[bool]) -> Option<String> {
    let frames = ours.len().max(expected.len());
    let bit = |bits: &[bool], frame| bits.get(frame).copied().unwrap_or(false);
    let frame = (0..frames).find(|frame| bit(ours, *frame) != bit(expected, *frame))?;
    let verb = if bit(ours, frame) {
        "keep"
    } else {
        "leave out"
    };
    Some(format!(
        "we {verb} page frame {frame:#x}, {:?}",
        machine.class(frame as u64)
    ))
}

#[test]
fn every_level_keeps_the_expected_pages_on_every_kernel() {
    for preset in presets() {
        for seed in 0..2 {
            let text = random_machine(seed, preset);
            let machine = Synth::from_text(&text).unwrap();
            let (_file, source) = open(&machine.elf(&ElfShape::vmcore()));
            let io = if seed == 0 {
                IoMethod::Mmap
            } else {
                IoMethod::Read
            };
            let kernel = Kernel::find(&source, None, io, 16).unwrap();
            for level in 0..=31 {
                let expected = machine.expected_dumpable(level);
                let difference = first_difference(&machine, &kept(&kernel, level, io), &expected);
                assert_eq!(
                    difference, None,
                    "{preset}, seed {seed}, level {level}\n{text}"
                );
            }
        }
    }
}

#[test]
fn every_elf_core_layout_keeps_the_same_pages() {
    for preset in ["4.19", "6.1", "6.12", "7.1"] {
        let machine = Synth::from_text(&random_machine(7, preset)).unwrap();
        let expected = machine.expected_dumpable(31);
        for (name, shape) in ElfShape::all() {
            let (_file, source) = open(&machine.elf(&shape));
            let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
            let ours = kept(&kernel, 31, IoMethod::Auto);
            assert_eq!(
                first_difference(&machine, &ours, &expected),
                None,
                "{preset}, {name}"
            );
        }
    }
}

const SMALL: &str = "ram 0x0-0x9f 0x100-0x1fff\n\
    pages 0x200 free order=9 ; 0x400 cache n=16 ; 0x600 thp ; 0x800 hugetlb\n";

#[test]
fn vmcoreinfo_without_a_note_is_found_in_memory() {
    let text = format!("kernel 6.1 levels=5 kaslr=0x1e00000 vmcoreinfo=page\n{SMALL}");
    let machine = Synth::from_text(&text).unwrap();
    let (_file, source) = open(&machine.elf(&ElfShape::qemu()));
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    assert!(kernel.found_in_memory());
    let ours = kept(&kernel, 31, IoMethod::Auto);
    assert_eq!(
        first_difference(&machine, &ours, &machine.expected_dumpable(31)),
        None
    );
}

#[test]
fn missing_vmcoreinfo_is_an_error_that_names_the_option() {
    let text = format!("kernel 6.12 vmcoreinfo=none\n{SMALL}");
    let machine = Synth::from_text(&text).unwrap();
    let (_file, source) = open(&machine.elf(&ElfShape::vmcore()));
    let error = Kernel::find(&source, None, IoMethod::Auto, 64)
        .err()
        .unwrap();
    assert!(error.to_string().contains("--vmcoreinfo"), "{error}");
    let given = bigiron_format::vmcoreinfo::Vmcoreinfo::parse(machine.vmcoreinfo().as_bytes(), 0);
    let kernel = Kernel::find(&source, given.ok(), IoMethod::Auto, 64).unwrap();
    let ours = kept(&kernel, 31, IoMethod::Auto);
    assert_eq!(
        first_difference(&machine, &ours, &machine.expected_dumpable(31)),
        None
    );
}

#[test]
fn zone_counters_agree_with_the_filters_free_pages() {
    for preset in presets() {
        let machine = Synth::from_text(&random_machine(3, preset)).unwrap();
        let (_file, source) = open(&machine.elf(&ElfShape::vmcore()));
        let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
        let counted = zones::free_pages(&kernel).unwrap();
        assert_eq!(counted, Some(machine.free_frames()), "{preset}");
    }
}

#[test]
fn utsname_is_read_from_kernel_memory() {
    let text = format!("kernel 6.12 kaslr=0x200000\n{SMALL}");
    let machine = Synth::from_text(&text).unwrap();
    let (_file, source) = open(&machine.elf(&ElfShape::vmcore()));
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    assert_eq!(kernel.utsname().machine(), "x86_64");
    assert_eq!(Some(kernel.utsname().release()), kernel.info().release());
}

#[test]
fn cache_reduces_page_table_reads() {
    let text = format!("kernel 6.12 vmemmap_leaf=4k\n{SMALL}");
    let machine = Synth::from_text(&text).unwrap();
    let (_file, source) = open(&machine.elf(&ElfShape::vmcore()));
    let misses = [0, 8, 64].map(|pages| {
        let kernel = Kernel::find(&source, None, IoMethod::Read, pages).unwrap();
        kept(&kernel, 31, IoMethod::Read);
        let statistics = kernel.memory().statistics();
        assert_eq!(statistics.hits == 0, pages == 0);
        statistics.misses
    });
    assert!(
        misses[0] > 10 * misses[1] && misses[1] >= misses[2],
        "{misses:?}"
    );
}
