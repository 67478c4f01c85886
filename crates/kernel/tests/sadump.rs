//! Dumps of firmware, as `bigiron_synth` writes them: on one partition, in a media backup, and on a
//! set of disks.

#![cfg(feature = "images")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::path::PathBuf;
use std::sync::OnceLock;

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::ReadAt;
use bigiron_format::failing::Failing;
use bigiron_kernel::{IoMethod, Kernel, SECTION_FRAMES, Source, SourceError};
use bigiron_synth::{Machine, SadumpShape, Synth};

const PAGE: usize = 4096;
const SHAPES: [SadumpShape; 4] = [
    SadumpShape::Single,
    SadumpShape::Media,
    SadumpShape::Set(1),
    SadumpShape::Set(4),
];

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let text = "kernel 6.12 cpus=3 stack=3
            ram 0x0-0x9f 0x100-0xbff 0x8000-0x80ff
            pages 0x400 slab n=64 fill=random ; 0x8000 slab n=64 fill=random";
        Synth::from_text(text).unwrap()
    })
}

fn open(disks: Vec<Vec<u8>>) -> Result<Source, SourceError> {
    let disks = disks.into_iter().enumerate().map(|(index, disk)| {
        let bytes: Box<dyn ReadAt> = Box::new(disk);
        (bytes, PathBuf::from(format!("disk{index}")))
    });
    Source::from_several(disks.collect())
}

/// Asserts that all pages are those of the machine, or lost; returns how many are lost.
fn check_pages(source: &Source) -> usize {
    let memory = source.memory();
    let mut reader = memory.reader(IoMethod::Auto);
    let mut bits = Bitmap::new(SECTION_FRAMES as usize);
    let mut lost = 0;
    for first in memory.sections() {
        memory.ram(first, &mut bits).unwrap();
        for bit in 0..bits.len() {
            let frame = first.0 + bit as u64;
            assert_eq!(bits.get(bit), machine().page(frame).is_some(), "{frame:#x}");
        }
        memory.present(first, &mut bits).unwrap();
        let mut at = 0;
        while let Some((start, len)) = bits.next_run(at, bits.len(), 100) {
            let frame = first.0 + start as u64;
            at = start;
            match reader.pages(PageFrame(frame), len) {
                Ok(pages) => {
                    for (frame, page) in (frame..).zip(pages.chunks_exact(PAGE)) {
                        assert!(machine().page(frame).unwrap() == page, "{frame:#x}");
                    }
                    at += pages.len() / PAGE;
                }
                Err(error) => {
                    assert!(error.is_one_page(), "{error}");
                    (lost, at) = (lost + 1, at + 1);
                }
            }
        }
    }
    lost
}

#[test]
fn every_page_is_that_of_the_machine_also_zeros_which_the_dump_has_not() {
    let mut frames = machine().ram().iter().cloned().flatten();
    assert!(frames.any(|frame| machine().page(frame).unwrap() == vec![0; PAGE]));
    for shape in SHAPES {
        let mut disks = machine().sadump(shape);
        // The order in which disks are given does not matter.
        disks.reverse();
        let source = open(disks).unwrap();
        assert_eq!(source.kind(), "sadump");
        assert_eq!(source.damage(), None);
        assert_eq!(check_pages(&source), 0);
    }
}

#[test]
fn kernel_and_registers_are_found() {
    for shape in SHAPES {
        let source = open(machine().sadump(shape)).unwrap();
        let kernel = Kernel::find(&source, None, IoMethod::Read, 64).unwrap();
        assert!(kernel.utsname().release().starts_with("6.12"));
        let notes: Vec<_> = source.memory().notes().intact().collect();
        assert_eq!(notes.len(), 3);
        for (cpu, note) in notes.iter().enumerate() {
            let registers = machine().registers(cpu as u32);
            let at = |index: usize| {
                let at = 112 + 8 * index;
                u64::from_le_bytes(note.desc[at..at + 8].try_into().unwrap())
            };
            let found = (at(16), at(19), at(4), at(17));
            assert_eq!(found, (registers.pc, registers.sp, registers.fp, 0x10));
        }
    }
}

#[test]
fn crashed_kernel_is_found_in_a_dump_written_while_the_capture_kernel_ran() {
    // The capture kernel's VMCOREINFO comes first.
    let capture = "kernel 6.1\nram 0x0-0x9f 0x400-0xfff";
    let mut capture = Synth::from_text(capture).unwrap();
    let crashed = "kernel 6.12 cpus=3\nram 0x1000-0x1bff\npages 0x1b00 slab n=1";
    let mut crashed = Synth::from_text(crashed).unwrap();
    let found = |disk: Vec<u8>| {
        let source = open(vec![disk]).unwrap();
        let kernel = Kernel::find(&source, None, IoMethod::Read, 64).unwrap();
        kernel.utsname().release().to_owned()
    };
    // Without a header of a core, there is no telling.
    let release = found(crashed.sadump_of_both(&capture));
    assert!(release.starts_with("6.1."), "{release}");
    let text = crashed.vmcoreinfo() + "CRASHTIME=1700000000\n";
    let mut note = Vec::new();
    for word in [11, text.len() as u32, 0] {
        note.extend(word.to_le_bytes());
    }
    note.extend(b"VMCOREINFO\0\0");
    note.extend(text.as_bytes());
    let at = 0x1b00 << 12;
    assert!(note.len() <= PAGE);
    crashed.write(at, &note).unwrap();
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(64 + 56, 0);
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    for (at, half) in [(16, 4_u16), (18, 62), (52, 64), (54, 56), (56, 1)] {
        put(at, &half.to_le_bytes());
    }
    put(32, &64_u64.to_le_bytes());
    put(64, &4_u32.to_le_bytes());
    for (field, value) in [(8, at), (24, at), (32, note.len() as u64)] {
        put(64 + field, &value.to_le_bytes());
    }
    capture.write(0xf00 << 12, &header).unwrap();
    let release = found(crashed.sadump_of_both(&capture));
    assert!(release.starts_with("6.12"), "{release}");
}

#[test]
fn missing_disk_and_truncated_file_cost_only_their_pages() {
    let whole = machine().sadump(SadumpShape::Set(4));
    let pages = |disk: &[u8]| disk.len() / PAGE - 1;
    let mut disks = whole.clone();
    let last = disks.pop().unwrap();
    let source = open(disks).unwrap();
    let damage = source.damage().unwrap();
    assert!(
        damage.contains("1 disks of the set are missing"),
        "{damage}"
    );
    assert_eq!(check_pages(&source), pages(&last));
    let mut disks = whole;
    disks[3].truncate(10 * PAGE + 100);
    let source = open(disks).unwrap();
    let damage = source.damage().unwrap();
    assert!(damage.contains("behind the end"), "{damage}");
    assert_eq!(check_pages(&source), pages(&last) - 9);
}

#[test]
fn bad_sector_costs_only_the_page_in_it() {
    let disk = machine().sadump(SadumpShape::Single).remove(0);
    let at = disk.len() as u64 - 300 * PAGE as u64;
    let bad = at..at + PAGE as u64;
    let failing = Failing::new(disk, vec![bad]);
    let source = Source::from_bytes(Box::new(failing), PathBuf::from("disk")).unwrap();
    assert_eq!(check_pages(&source), 1);
}

#[test]
fn disks_that_do_not_belong_together_are_refused_with_the_reason() {
    let set = machine().sadump(SadumpShape::Set(3));
    let refused = |disks: Vec<Vec<u8>>, reason: &str| {
        let error = open(disks).err().unwrap().to_string();
        assert!(error.contains(reason), "{error}");
    };
    refused(set[1..].to_vec(), "give its first disk too");
    refused(vec![set[0].clone(), set[2].clone()], "give disk 2");
    let single = machine().sadump(SadumpShape::Single);
    refused([single.clone(), single].concat(), "give it alone");
    let mut other = set.clone();
    other[1][88] ^= 1;
    refused(other, "another set");
    let mut other = set.clone();
    other[2][120] ^= 1;
    refused(other, "not the disk that the first disk of the set names");
    // A media backup of another dump.
    let mut media = machine().sadump(SadumpShape::Media);
    media[0][0] ^= 1;
    refused(media, "GUIDs of the media header");
    let mut media = machine().sadump(SadumpShape::Media);
    media[0][48] = 2;
    refused(media, "the first file");
}

#[test]
fn dump_of_a_32_bit_kernel_is_refused_by_name() {
    let mut disk = machine().sadump(SadumpShape::Single).remove(0);
    // EFER of each CPU, behind its number of CPUs and their APIC IDs.
    for cpu in 0..3 {
        let at = 2 * PAGE + 4 + 3 * 16 + cpu * 1024 + 992;
        disk[at..at + 8].fill(0);
    }
    let error = open(vec![disk]).err().unwrap().to_string();
    assert!(error.contains("32-bit x86"), "{error}");
}

#[test]
fn damaged_headers_are_errors_with_their_offset() {
    let disk = machine().sadump(SadumpShape::Single).remove(0);
    for (at, value, message) in [
        (1000, 1, "0x3e8"),
        (4096, 0, "offset 0x1000"),
        (4096 + 41, 2, "offset 0x1028"),
        (4096 + 55, 0xff, "offset 0x1034"),
        (4096 + 59, 0xff, "offset 0x1038"),
        (4096 + 54, 1, "truncated"),
    ] {
        let mut damaged = disk.clone();
        assert_ne!(damaged[at], value);
        damaged[at] = value;
        let error = open(vec![damaged]).err().unwrap().to_string();
        assert!(error.contains(message), "{at}: {error}");
    }
    // Without registers the pages are read all the same.
    let mut damaged = disk;
    damaged[2 * 4096] ^= 1;
    let source = open(vec![damaged]).unwrap();
    let warning = source.memory().warning().unwrap();
    assert!(warning.contains("offset 0x2000"), "{warning}");
    assert_eq!(check_pages(&source), 0);
}
