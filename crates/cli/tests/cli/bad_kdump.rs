//! Damaged and hostile kdump-compressed and flattened files.

use std::fs;

use bigiron_format::flattened;
use bigiron_format::kdump::KdumpHeaders;

use crate::common;
use crate::common::{Lab, arg, incomplete_but_equal, refused, run, survives, with};
/// Offsets in a kdump-compressed file at which one of its areas begins or ends.
fn borders(kdump: &[u8]) -> Vec<usize> {
    let headers = KdumpHeaders::read(kdump).unwrap();
    let layout = headers.layout;
    let notes = layout.notes() as usize;
    vec![
        8,
        463,
        464,
        4095,
        4096,
        4096 + 103,
        4096 + 104,
        notes + headers.notes.len() - 1,
        layout.ram_bitmap() as usize,
        layout.dumped_bitmap() as usize,
        layout.descriptors() as usize - 1,
    ]
}

#[test]
fn kdump_file_truncated_in_its_headers_is_rejected_but_later_is_read() {
    let lab = Lab::new();
    let kdump = fs::read(lab.dump("kdump", &["-d", "31", "-c", "lzo"])).unwrap();
    for cut in borders(&kdump) {
        refused(&lab.file("cut", &kdump[..cut]), &["truncated"]);
    }
    let descriptors = KdumpHeaders::read(kdump.as_slice())
        .unwrap()
        .layout
        .descriptors() as usize;
    let vmcore = lab.vmcore();
    for cut in [
        descriptors,
        descriptors + 23,
        descriptors + 24,
        kdump.len() / 2,
        kdump.len() - 5000,
    ] {
        let source = lab.file("cut", &kdump[..cut]);
        survives(&source);
        incomplete_but_equal(&source, vmcore);
    }
    // Level 1 needs none of the kernel's tables.
    let (source, output) = (lab.file("cut", &kdump[..kdump.len() / 2]), lab.path("out"));
    run(&["dump", "-d", "1", arg(&source), arg(&output)])
        .code(0)
        .says(&["warning", "cannot be read"]);
    incomplete_but_equal(&output, vmcore);
}

#[test]
fn kdump_header_fields_beyond_the_end_of_the_file_are_rejected() {
    let lab = Lab::new();
    let kdump = fs::read(lab.dump("kdump", &["-d", "31"])).unwrap();
    let refuse = |at: usize, new: &[u8], parts: &[&str]| {
        refused(&lab.file("bad", &with(&kdump, at, new)), parts);
    };
    let huge = (1_u64 << 50).to_le_bytes();
    let sub = 4096;
    refuse(0, b"KDUMQ", &["signature"]);
    refuse(8, &[99], &["version", "offset 0x8"]);
    refuse(272, b"sparc64\0", &["SPARC64", "makedumpfile"]);
    refuse(272, b"vax\0", &["vax", "offset 272"]);
    refuse(428, &[3], &["block size", "offset 0x1ac"]);
    refuse(432, &[0; 4], &["sub-header", "offset 0x1b0"]);
    refuse(432, &[0xff; 4], &["sub-header", "offset 0x1b0"]);
    refuse(432, &[0, 0x80, 0, 0], &["truncated"]);
    refuse(436, &[0; 4], &["bitmap blocks", "offset 0x1b4"]);
    refuse(436, &[0xff; 4], &["the bitmaps", "truncated"]);
    refuse(sub + 48, &huge, &["the notes", "truncated"]);
    refuse(sub + 56, &huge, &["the size of the notes"]);
    refuse(sub + 96, &[0; 8], &["number of page frames"]);
    refuse(
        sub + 96,
        &(1_u64 << 41).to_le_bytes(),
        &["number of page frames"],
    );
    refuse(sub + 96, &(1_u64 << 40).to_le_bytes(), &["bitmap blocks"]);
}

#[test]
fn parts_of_a_split_dump_with_invalid_ranges_cause_no_crash() {
    let lab = Lab::new();
    let kdump = fs::read(lab.dump("kdump", &["-d", "31"])).unwrap();
    let split = |start: u64, end: u64| {
        let mut bytes = with(&kdump, 4096 + 12, &[1, 0, 0, 0]);
        bytes = with(&bytes, 4096 + 80, &start.to_le_bytes());
        with(&bytes, 4096 + 88, &end.to_le_bytes())
    };
    for (start, end) in [
        (5, 2),
        (u64::MAX, 0),
        (0, u64::MAX),
        (0x1000, 0x1000),
        (0x2000, 0x9000),
    ] {
        survives(&lab.file("part", &split(start, end)));
    }
    let first = lab.file("first", &split(0, 0x800));
    let output = lab.path("out");
    run(&["dump", "-d", "1", arg(&first), arg(&output)])
        .code(0)
        .says(&["part of a split dump"]);
    run(&["verify", arg(&output)])
        .code(1)
        .says(&["incomplete but usable"]);
    run(&[
        "dump",
        arg(&first),
        arg(lab.vmcore()),
        arg(&lab.path("both")),
    ])
    .code(1)
    .says(&["vmcore", "ELF core"]);
}

#[test]
fn dump_of_an_incomplete_kdump_file_warns_and_stays_incomplete() {
    let lab = Lab::new();
    let mut kdump = fs::read(lab.dump("kdump", &["-d", "31"])).unwrap();
    kdump[424] |= 8;
    let (source, output) = (lab.file("marked", &kdump), lab.path("out"));
    run(&["dump", arg(&source), arg(&output)]).code(0).says(&[
        "warning",
        "marked incomplete",
        "offset 424",
    ]);
    incomplete_but_equal(&output, lab.vmcore());
}

#[test]
fn dumped_pages_outside_the_ram_bitmap_are_kept_and_reported_as_damage() {
    let lab = Lab::new();
    let whole = lab.dump("kdump", &["-d", "31"]);
    let kdump = fs::read(&whole).unwrap();
    let layout = KdumpHeaders::read(kdump.as_slice()).unwrap().layout;
    let dumped = common::present(&whole);
    let count = dumped.iter().filter(|bit| **bit).count();
    let (at, size) = (layout.ram_bitmap() as usize, layout.bitmap_size as usize);
    let byte = at + common::PLAIN_FRAME as usize / 8;
    let (first, one_byte) = (dumped.iter().position(|bit| *bit).unwrap(), &[0]);
    let cases = [
        (with(&kdump, at, &vec![0; size]), first, count),
        (
            with(&kdump, byte, one_byte),
            common::PLAIN_FRAME as usize,
            8,
        ),
    ];
    for (bytes, frame, pages) in cases {
        let (source, output) = (lab.file("source", &bytes), lab.path("out"));
        let named = [
            format!("{pages} of {count} dumped pages are not RAM"),
            format!("page frame {frame:#x}"),
            format!("offset {:#x}", at + frame / 8),
        ];
        let named = named.each_ref().map(String::as_str);
        run(&["verify", arg(&source)]).code(1).says(&named);
        run(&["dump", "--overwrite", arg(&source), arg(&output)])
            .code(0)
            .says(&["warning"])
            .says(&named);
        incomplete_but_equal(&output, lab.vmcore());
        assert_eq!(common::present(&output), dumped);
    }
}

#[test]
fn truncated_flattened_file_is_rejected_or_read_as_incomplete() {
    let lab = Lab::new();
    let flat = fs::read(lab.dump("flat", &["-d", "31", "-f", "flattened"])).unwrap();
    for cut in [1, 15] {
        refused(&lab.file("cut", &flat[..cut]), &["signature"]);
    }
    for cut in [
        16,
        4095,
        4096,
        4096 + 15,
        4096 + 16,
        4096 + 480,
        4096 + 16 + 4096 + 50,
    ] {
        refused(&lab.file("cut", &flat[..cut]), &[]);
        let outcome = common::run_with_input(&["dump", "-", arg(&lab.path("o"))], &flat[..cut]);
        outcome.code(1).says(&["standard input"]);
    }
    for cut in [
        flat.len() / 2,
        flat.len() - 5000,
        flat.len() - 17,
        flat.len() - 16,
    ] {
        let source = lab.file("cut", &flat[..cut]);
        survives(&source);
    }
    let cut = &flat[..flat.len() - 16];
    let source = lab.file("cut", cut);
    let (output, piped) = (lab.path("out"), lab.path("piped"));
    run(&["dump", "-d", "1", arg(&source), arg(&output)])
        .code(0)
        .says(&["no end record", "cut"]);
    incomplete_but_equal(&output, lab.vmcore());
    common::run_with_input(&["dump", "-d", "1", "-", arg(&piped)], cut)
        .code(0)
        .says(&["no end record", "standard input"]);
    incomplete_but_equal(&piped, lab.vmcore());
}

#[test]
fn flattened_records_of_petabytes_are_rejected() {
    let lab = Lab::new();
    let kdump = fs::read(lab.dump("kdump", &["-d", "31"])).unwrap();
    let mut front = with(&kdump[..8192], 436, &(1_u32 << 25).to_le_bytes());
    front = with(&front, 4096 + 96, &(1_u64 << 39).to_le_bytes());
    let mut flat = flattened::header().to_vec();
    for (offset, bytes) in [(0, front.as_slice()), (1 << 41, &[0])] {
        flat.extend(flattened::record_header(offset, bytes.len() as u64));
        flat.extend(bytes);
    }
    flat.extend(flattened::end_record());
    refused(&lab.file("claim", &flat), &["claim", "offset 0x1000"]);
    for bad in [
        flattened::record_header(1 << 63, 5),
        flattened::record_header(5, 1 << 63),
    ] {
        let mut flat = flattened::header().to_vec();
        flat.extend(bad);
        refused(
            &lab.file("bad", &flat),
            &["flattened record", "offset 0x100"],
        );
    }
}
