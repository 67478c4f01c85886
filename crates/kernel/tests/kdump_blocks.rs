//! kdump-compressed dumps as QEMU writes them: blocks that hold several pages, and a machine
//! without a name.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::path::PathBuf;

use bigiron_format::PageFrame;
use bigiron_format::bytes::Endian;
use bigiron_format::codec::Codec;
use bigiron_format::elf::note;
use bigiron_format::kdump::{
    KdumpHeaders, Layout, PageDescriptor, Utsname, flags_of_codec, header,
};
use bigiron_kernel::{IoMethod, Kernel, Source};
use bigiron_synth::{Machine, Synth};
use common::kept::kept;

const BLOCK: u64 = 64 << 10;

fn machine(text: &str) -> Machine {
    Synth::from_text(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The dump of all RAM in blocks of 64 KiB, one note of registers of `prstatus` bytes, and
/// VMCOREINFO if `noted`.
fn dump(machine: &Machine, endian: Endian, prstatus: usize, noted: bool) -> Vec<u8> {
    let mut notes = note::encode(b"CORE", note::NT_PRSTATUS, &vec![0; prstatus], endian);
    let text = machine.vmcoreinfo();
    if noted {
        notes.extend(note::encode(note::VMCOREINFO, 0, text.as_bytes(), endian));
    }
    let per_block = BLOCK / machine.page_size();
    let ram = machine.ram().iter();
    let blocks: Vec<u64> = ram
        .flat_map(|range| range.start / per_block..range.end.div_ceil(per_block))
        .collect();
    let end_frame = blocks.last().unwrap() + 1;
    let layout = Layout::new(BLOCK, notes.len() as u64, end_frame);
    let mut utsname = Utsname::default();
    utsname.names[4] = "Unknown".into();
    let headers = KdumpHeaders {
        endian,
        version: header::VERSION,
        utsname,
        timestamp: (0, 0),
        codec_flags: 0,
        incomplete: false,
        block_size: BLOCK as u32,
        cpu_count: 1,
        phys_base: 0,
        dump_level: 1,
        lacks_struct_pages: false,
        split: None,
        end_frame,
        offset_note: layout.notes(),
        notes,
        erase_info: Vec::new(),
        vmcoreinfo: None,
        layout,
    };
    let mut bytes = headers.encode();
    let mut bitmap = vec![0_u8; layout.bitmap_size as usize];
    for block in &blocks {
        bitmap[*block as usize / 8] |= 1 << (block % 8);
    }
    bytes.extend([&bitmap[..], &bitmap].concat());
    let data = layout.descriptor(blocks.len() as u64);
    for index in 0..blocks.len() as u64 {
        let descriptor = PageDescriptor {
            offset: data + index * BLOCK,
            size: BLOCK as u32,
            flags: flags_of_codec(Codec::None),
            page_flags: 0,
        };
        bytes.extend(descriptor.encode(endian));
    }
    for block in blocks {
        bytes.extend(machine.read(block * BLOCK, BLOCK as usize).unwrap());
    }
    bytes
}

fn check(machine: &Machine, bytes: Vec<u8>, name: &str) {
    let source = Source::from_bytes(Box::new(bytes), PathBuf::from(name)).unwrap();
    assert_eq!(source.memory().machine(), name);
    let kernel = Kernel::find(&source, None, IoMethod::Read, 64).unwrap();
    assert_eq!(1 << source.memory().page_shift(), machine.page_size());
    for level in [0, 31] {
        let (mut ours, mut expected) = (
            kept(&kernel, level, IoMethod::Read),
            machine.expected_dumpable(level),
        );
        let frames = ours.len().max(expected.len());
        ours.resize(frames, false);
        expected.resize(frames, false);
        assert!(ours == expected, "{name}, level {level}");
    }
    let mut reader = source.memory().reader(IoMethod::Read);
    for range in machine.ram() {
        let mut frame = range.start;
        while frame < range.end {
            let wanted = 37.min(range.end - frame) as usize;
            let pages = reader.pages(PageFrame(frame), wanted).unwrap();
            assert!(!pages.is_empty() && pages.len() <= wanted << source.memory().page_shift());
            for (page, frame) in pages.chunks(machine.page_size() as usize).zip(frame..) {
                assert!(page == machine.page(frame).unwrap(), "{name}: {frame:#x}");
            }
            frame += pages.len() as u64 >> source.memory().page_shift();
        }
    }
}

const RAM_4K: &str = "ram 0x40000-0x43fff\npages 0x40200 free order=9 ; 0x40403 cache n=16 ; \
    0x40600 thp ; 0x40801 anon n=70";

#[test]
fn pages_are_read_from_larger_blocks_of_a_machine_without_a_name() {
    let text = format!("arch arm64 bits=48\nkernel 6.12 vmcoreinfo=both\n{RAM_4K}");
    let machine = machine(&text);
    for noted in [true, false] {
        let bytes = dump(&machine, Endian::Little, 392, noted);
        check(&machine, bytes, "aarch64");
    }
}

#[test]
fn blocks_of_the_page_size_need_no_division() {
    let text = "arch arm64 pages=64k bits=52\nkernel 6.12 vmcoreinfo=page\nram 0x4000-0x43ff\n\
        pages 0x4200 free order=5 ; 0x4240 cache n=16";
    let machine = machine(text);
    check(
        &machine,
        dump(&machine, Endian::Little, 392, false),
        "aarch64",
    );
}

#[test]
fn machine_without_a_name_and_without_registers_is_refused() {
    let machine = machine(&format!("arch arm64 bits=48\nkernel 6.12\n{RAM_4K}"));
    let bytes = dump(&machine, Endian::Little, 100, true);
    let source = Source::from_bytes(Box::new(bytes), PathBuf::from("dump"));
    let error = source.map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("\"Unknown\"") && error.contains("offset 272"),
        "{error}"
    );
}
