//! Bad, damaged and hostile input.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use bigiron_format::codec::{Codec, Compression};
use bigiron_format::flattened;
use bigiron_format::kdump::{KdumpHeaders, flags_of_codec};
use bigiron_synth::{ElfShape, Machine};

use common::{
    Lab, PLAIN_FRAME, arg, descriptor_of, field, image, incomplete_but_right, machine, refused,
    run, survives, with,
};

#[test]
fn files_that_are_no_dumps_are_refused_by_name() {
    let lab = Lab::new();
    refused(&lab.path("missing"), &["cannot open it", "No such file"]);
    refused(&lab.file("empty", b""), &["empty"]);
    refused(Path::new("/dev/null"), &["/dev/null", "empty"]);
    refused(Path::new("/dev/zero"), &["/dev/zero"]);
    refused(
        &lab.file("text", b"no dump at all"),
        &["signature", "offset 0"],
    );
    fs::create_dir(lab.path("directory")).unwrap();
    refused(&lab.path("directory"), &["is a directory"]);
    let unreadable = lab.file("unreadable", &image().bytes);
    fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&unreadable).is_ok() {
        println!("skipped: an unreadable file, since root can read every file");
    } else {
        refused(&unreadable, &["cannot open it", "Permission denied"]);
    }
}

#[test]
fn a_named_pipe_as_source_does_not_hang() {
    let lab = Lab::new();
    let pipe = lab.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    refused(&pipe, &["is a pipe", "give -"]);
}

#[test]
fn an_elf_file_of_another_kind_is_refused_with_the_offset() {
    let lab = Lab::new();
    let refuse = |at: usize, new: &[u8], parts: &[&str]| {
        refused(&lab.file("bad", &with(&image().bytes, at, new)), parts);
    };
    refuse(0, b"\x7fELG", &["signature", "offset 0"]);
    refuse(4, &[1], &["64 bits", "offset 0x4"]);
    refuse(5, &[2], &["offset 0x10"]);
    refuse(5, &[3], &["byte order", "offset 0x5"]);
    refuse(16, &[2, 0], &["core file", "offset 0x10"]);
    let outcome = refused(&lab.file("bad", &with(&image().bytes, 4, &[1])), &[]);
    assert_eq!(outcome.stderr.matches("64 bits").count(), 1, "said twice");
    refuse(18, &[183, 0], &["machine 183", "offset 18", "x86_64"]);
    refuse(
        32,
        &u64::MAX.to_le_bytes(),
        &["program headers", "truncated"],
    );
    refuse(
        32,
        &(1_u64 << 40).to_le_bytes(),
        &["program headers", "truncated"],
    );
    refuse(54, &[0, 0], &["e_phentsize", "offset 0x36"]);
    refuse(56, &[0, 0], &["number of program headers"]);
    refuse(56, &[0xff, 0xff], &["e_shoff", "offset 0x28"]);
    survives(&lab.file("bad", &with(&image().bytes, 56, &[0xfe, 0xff])));
}

#[test]
fn counts_and_sizes_beyond_an_elf_file_are_refused() {
    let lab = Lab::new();
    let note_header = image().phdrs.start;
    let load = image().loads[0].phdr;
    let refuse = |bytes: &[u8], at: usize, new: u64, parts: &[&str]| {
        refused(
            &lab.file("bad", &with(bytes, at, &new.to_le_bytes())),
            parts,
        );
    };
    let bytes = &image().bytes;
    refuse(
        bytes,
        note_header + 32,
        1 << 40,
        &["note segment", "offset"],
    );
    refuse(bytes, note_header + 8, 1 << 50, &["the notes", "truncated"]);
    refuse(bytes, load + 8, u64::MAX - 8, &["PT_LOAD", "below 2^64"]);
    refuse(bytes, load + 24, u64::MAX - 8, &["PT_LOAD", "below 2^64"]);
    refuse(bytes, load + 24, 1 << 60, &["no machine has memory"]);
    let extended = machine().elf_image(&ElfShape {
        extended_phnum: true,
        ..ElfShape::vmcore()
    });
    let count = extended.shdrs.start + 44;
    refuse(
        &extended.bytes,
        count,
        u64::from(u32::MAX),
        &["number of program headers"],
    );
    refuse(
        &extended.bytes,
        count,
        1 << 24,
        &["program headers", "truncated"],
    );
    refuse(
        &extended.bytes,
        40,
        1 << 50,
        &["section header 0", "truncated"],
    );
}

#[test]
fn a_note_that_claims_too_much_hides_vmcoreinfo_but_memory_still_has_it() {
    let lab = Lab::new();
    let notes = image().notes.iter();
    for note in notes {
        let bytes = with(&image().bytes, note.header + 4, &u32::MAX.to_le_bytes());
        let source = lab.file("bad", &bytes);
        let output = lab.path("out");
        run(&["dump", "--overwrite", arg(&source), arg(&output)])
            .code(0)
            .says(&["found it in memory"]);
    }
}

#[test]
fn an_elf_core_cut_in_its_headers_is_refused_and_one_cut_in_its_data_is_used() {
    let lab = Lab::new();
    let image = image();
    let last_note = image.notes.last().unwrap().desc.end;
    let mut cuts = vec![4, 16, 63, 64, image.phdrs.end - 1, image.phdrs.end];
    cuts.extend(image.loads.iter().map(|load| load.phdr));
    cuts.extend(
        image
            .notes
            .iter()
            .flat_map(|note| [note.header, note.desc.start + 1]),
    );
    cuts.push(last_note - 1);
    for cut in cuts {
        refused(&lab.file("cut", &image.bytes[..cut]), &["truncated"]);
    }
    for load in &image.loads {
        for cut in [load.data.start, load.data.start + 1, load.data.end - 4097] {
            survives(&lab.file("cut", &image.bytes[..cut]));
        }
    }
}

#[test]
fn a_cut_elf_core_is_dumped_with_a_warning_and_the_dump_is_marked_incomplete() {
    let lab = Lab::new();
    let bytes = &image().bytes;
    let cut = lab.file("cut", &bytes[..bytes.len() - 5000]);
    for format in ["kdump", "elf"] {
        let output = lab.path(format);
        run(&["dump", "-d", "0", "-f", format, arg(&cut), arg(&output)])
            .code(0)
            .says(&["warning", "truncated", arg(&cut)]);
        run(&["verify", arg(&output)])
            .code(1)
            .says(&["incomplete but usable"]);
    }
    incomplete_but_right(&lab.path("kdump"), lab.vmcore());
}

#[test]
fn overlapping_and_unsorted_segments_change_nothing() {
    let lab = Lab::new();
    let expected = lab.dump("expected", &["-d", "31"]);
    for (name, shape) in ElfShape::all() {
        let source = lab.file("shape", &machine().elf(&shape));
        let output = lab.path("out");
        run(&["dump", "--overwrite", arg(&source), arg(&output)]).code(0);
        assert_eq!(
            common::present(&output),
            common::present(&expected),
            "{name}"
        );
        run(&["verify", arg(&output), "--against", arg(&expected)]).code(0);
    }
}

#[test]
fn a_segment_that_claims_petabytes_is_refused_at_once() {
    let lab = Lab::new();
    let load = image().loads.last().unwrap().phdr;
    let claim = with(&image().bytes, load + 40, &(1_u64 << 50).to_le_bytes());
    refused(&lab.file("claim", &claim), &["claim", "bytes of memory"]);
    let mut tiny = with(
        &claim,
        load + 40,
        &((1_u64 << 51) - (1 << 30)).to_le_bytes(),
    );
    tiny.truncate(image().loads[0].data.start);
    refused(&lab.file("tiny", &tiny), &["claim", "bytes of memory"]);
}

#[test]
fn memory_far_up_costs_a_stream_no_terabytes_of_bitmaps() {
    let lab = Lab::new();
    let load = image().loads.last().unwrap().phdr;
    let far = with(&image().bytes, load + 24, &(1_u64 << 51).to_le_bytes());
    let source = lab.file("far", &far);
    survives(&source);
    let outcome = run(&["dump", "-d", "1", arg(&source), "-"]);
    assert!(matches!(outcome.code, Some(0 | 1)), "{}", outcome.stderr);
    assert!(outcome.stdout.len() < 1 << 30);
}

/// Places in a kdump-compressed file where something begins or ends.
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
fn a_kdump_file_cut_in_its_headers_is_refused_and_later_it_is_used() {
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
        incomplete_but_right(&source, vmcore);
    }
    // Level 1 needs none of the kernel's tables.
    let (source, output) = (lab.file("cut", &kdump[..kdump.len() / 2]), lab.path("out"));
    run(&["dump", "-d", "1", arg(&source), arg(&output)])
        .code(0)
        .says(&["warning", "cannot be read"]);
    incomplete_but_right(&output, vmcore);
}

#[test]
fn fields_of_kdump_headers_beyond_the_file_are_refused() {
    let lab = Lab::new();
    let kdump = fs::read(lab.dump("kdump", &["-d", "31"])).unwrap();
    let refuse = |at: usize, new: &[u8], parts: &[&str]| {
        refused(&lab.file("bad", &with(&kdump, at, new)), parts);
    };
    let huge = (1_u64 << 50).to_le_bytes();
    let sub = 4096;
    refuse(0, b"KDUMQ", &["signature"]);
    refuse(8, &[99], &["version", "offset 0x8"]);
    refuse(272, b"sparc64\0", &["sparc64", "offset 272"]);
    refuse(428, &[3], &["block size", "offset 0x1ac"]);
    refuse(432, &[0; 4], &["sub-header", "offset 0x1b0"]);
    refuse(432, &[0xff; 4], &["sub-header", "offset 0x1b0"]);
    refuse(432, &[0, 0x80, 0, 0], &["truncated"]);
    refuse(436, &[0; 4], &["bitmap blocks", "offset 0x1b4"]);
    refuse(436, &[0xff; 4], &["the bitmaps", "truncated"]);
    refuse(sub + 32, &huge, &["VMCOREINFO", "truncated"]);
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
fn parts_of_a_split_dump_with_mad_ranges_do_no_harm() {
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
fn a_kdump_file_marked_incomplete_is_dumped_with_a_warning_and_stays_so() {
    let lab = Lab::new();
    let mut kdump = fs::read(lab.dump("kdump", &["-d", "31"])).unwrap();
    kdump[424] |= 8;
    let (source, output) = (lab.file("marked", &kdump), lab.path("out"));
    run(&["dump", arg(&source), arg(&output)]).code(0).says(&[
        "warning",
        "marked incomplete",
        "offset 424",
    ]);
    incomplete_but_right(&output, lab.vmcore());
}

#[test]
fn a_flattened_file_cut_anywhere_is_refused_or_used_and_marked_incomplete() {
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
    incomplete_but_right(&output, lab.vmcore());
    common::run_with_input(&["dump", "-d", "1", "-", arg(&piped)], cut)
        .code(0)
        .says(&["no end record", "standard input"]);
    incomplete_but_right(&piped, lab.vmcore());
}

#[test]
fn records_of_a_flattened_file_that_claim_petabytes_are_refused() {
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

/// A dump in which one page has other data.
fn with_page(kdump: &[u8], data: &[u8], flags: u32) -> Vec<u8> {
    let at = descriptor_of(kdump, PLAIN_FRAME);
    let mut bytes = with(kdump, at, &(kdump.len() as u64).to_le_bytes());
    bytes = with(&bytes, at + 8, &(data.len() as u32).to_le_bytes());
    bytes = with(&bytes, at + 12, &flags.to_le_bytes());
    bytes.extend(data);
    bytes
}

/// The page is lost and named, all others survive.
#[track_caller]
fn loses_one_page(lab: &Lab, name: &str, bytes: &[u8]) {
    let (source, output) = (lab.file("damaged", bytes), lab.path("out"));
    let outcome = run(&["dump", "--json", "--overwrite", arg(&source), arg(&output)]).code(0);
    let frame = format!("{PLAIN_FRAME:#x}");
    let outcome = outcome.says(&["warning: 1 page cannot be read", &frame, arg(&source)]);
    assert!(outcome.text().contains(&format!("{PLAIN_FRAME}")), "{name}");
    incomplete_but_right(&output, lab.vmcore());
    let kept = common::present(&output).iter().filter(|bit| **bit).count();
    let verified = run(&["verify", arg(&output), "--json"]).code(1).text();
    assert!(verified.contains("\"lost\": 1,"), "{name}: {verified}");
    assert!(
        verified.contains(&format!("\"pages\": {},", kept - 1)),
        "{name}: {verified}"
    );
    // The damaged source itself is told by name and offset.
    run(&["verify", arg(&source)]).code(1).says(&["damaged"]);
}

#[test]
fn a_damaged_page_is_lost_and_named_and_the_others_survive() {
    let lab = Lab::new();
    let kdump = fs::read(lab.dump("kdump", &["-d", "31"])).unwrap();
    let descriptor = descriptor_of(&kdump, PLAIN_FRAME);
    let descriptors = [
        ("a size of 0", 8, [0; 4]),
        ("a size beyond a page", 8, [0, 0, 1, 0]),
        ("a codec nobody knows", 12, [0x40, 0, 0, 0]),
        ("two codecs", 12, [3, 0, 0, 0]),
        ("an offset beyond the file", 4, [0, 0, 1, 0]),
        ("an offset beyond all files", 4, [0xff; 4]),
    ];
    for (name, at, new) in descriptors {
        loses_one_page(&lab, name, &with(&kdump, descriptor + at, &new));
    }
    let bomb = vec![0; 1 << 16];
    for codec in [Codec::Zlib, Codec::Lzo, Codec::Snappy, Codec::Zstd] {
        let flags = flags_of_codec(codec);
        let garbage: Vec<u8> = (0..500_u32).map(|n| (n * 167 + 13) as u8).collect();
        loses_one_page(&lab, codec.name(), &with_page(&kdump, &garbage, flags));
        let compression: Compression = codec.name().parse().unwrap();
        let mut data = vec![0; 1 << 17];
        let size = compression
            .compressor()
            .unwrap()
            .compress(&bomb, &mut data)
            .unwrap();
        assert!(size <= 4096, "{} is no bomb", codec.name());
        loses_one_page(&lab, codec.name(), &with_page(&kdump, &data[..size], flags));
        loses_one_page(
            &lab,
            codec.name(),
            &with_page(&kdump, &data[..size / 2], flags),
        );
    }
    // A frame that claims 2^40 bytes.
    let mut claim = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
    claim.extend((1_u64 << 40).to_le_bytes());
    claim.extend([0x03, 0x00, 0x80, 0x00]);
    loses_one_page(&lab, "claim", &with_page(&kdump, &claim, 0x20));
}

#[test]
fn descriptors_that_point_at_each_other_or_at_one_place_do_no_harm() {
    let lab = Lab::new();
    let kdump = fs::read(lab.dump("kdump", &["-d", "31", "-c", "none"])).unwrap();
    let layout = KdumpHeaders::read(kdump.as_slice()).unwrap().layout;
    let (begin, count) = (layout.descriptors(), common::present(&lab.path("kdump")));
    let count = count.iter().filter(|bit| **bit).count() as u64;
    let targets: [&dyn Fn(u64) -> u64; 4] = [
        &|_| field(&kdump, begin as usize),
        &|_| 1,
        &|index| begin + (index + 1) % count * 24,
        &|index| {
            if index % 2 == 0 {
                1
            } else {
                kdump.len() as u64 - 4096
            }
        },
    ];
    for target in targets {
        let mut bytes = kdump.clone();
        for index in 0..count {
            let at = layout.descriptor(index) as usize;
            bytes[at..at + 8].copy_from_slice(&target(index).to_le_bytes());
        }
        survives(&lab.file("hostile", &bytes));
    }
}

/// Physical address of a symbol of the kernel's image.
fn symbol(machine: &Machine, name: &str) -> u64 {
    let text = machine.vmcoreinfo();
    let key = format!("SYMBOL({name})=");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(&key))
        .unwrap();
    let (virt, phys) = machine.image();
    let address = u64::from_str_radix(value, 16).unwrap();
    if virt.contains(&address) {
        address - virt.start + phys.start
    } else {
        address - machine.page_offset()
    }
}

#[test]
fn loops_in_page_tables_and_in_mem_section_end() {
    let lab = Lab::new();
    let mut looping = machine().clone();
    let top = looping.top_table();
    for entry in 0..512 {
        let to_itself = (top | 0x63).to_le_bytes();
        looping.write(top + entry * 8, &to_itself).unwrap();
    }
    survives(&lab.file("tables", &looping.elf(&ElfShape::vmcore())));

    let mut looping = machine().clone();
    let at = symbol(&looping, "mem_section");
    let to_itself = (at + looping.page_offset()).to_le_bytes();
    for word in 0..8 {
        looping.write(at + word * 8, &to_itself).unwrap();
    }
    survives(&lab.file("sections", &looping.elf(&ElfShape::vmcore())));
}

#[test]
fn without_struct_pages_level_1_works_and_higher_ones_say_so() {
    let lab = Lab::new();
    let mut broken = machine().clone();
    let index = broken.struct_page_vaddr(0) >> 39 & 0x1ff;
    let top = broken.top_table();
    broken.write(top + index * 8, &[0; 8]).unwrap();
    let source = lab.file("unmapped", &broken.elf(&ElfShape::vmcore()));
    refused(
        &source,
        &[
            "cannot filter at dump level 31",
            "with -d 1 all pages are dumped",
        ],
    );
    let output = lab.path("out");
    run(&["dump", "-d", "1", arg(&source), arg(&output)])
        .code(0)
        .says(&["warning: cannot tell poisoned pages"]);
    run(&["verify", arg(&output), "--against", arg(&source)]).code(0);
}

#[test]
fn a_wrong_vmcoreinfo_is_refused_by_name() {
    let lab = Lab::new();
    let output = lab.path("out");
    let other = machine().vmcoreinfo().replace("OSRELEASE=6", "OSRELEASE=5");
    let no_size = machine().vmcoreinfo().replace("SIZE(page)", "SIZE(egap)");
    for (name, bytes, part) in [
        ("empty", &b""[..], "no line OSRELEASE="),
        ("binary", &[0xff, 0xfe, 0x80], "binary data"),
        ("zeros", &[0; 100], "no line OSRELEASE="),
        ("long", &[b'a'; 70_000], "at most"),
        ("other", other.as_bytes(), "the dump of"),
        ("no-size", no_size.as_bytes(), "SIZE(page)"),
    ] {
        let given = lab.file(name, bytes);
        let vmcore = lab.vmcore();
        let outcome = run(&[
            "dump",
            "--vmcoreinfo",
            arg(&given),
            arg(vmcore),
            arg(&output),
        ]);
        let named = ["other", "no-size"].contains(&name);
        let file = if named { vmcore } else { &given };
        outcome.code(1).says(&[part, arg(file)]);
        assert!(!output.exists());
    }
    let missing = lab.path("none");
    run(&[
        "dump",
        "--vmcoreinfo",
        arg(&missing),
        arg(lab.vmcore()),
        arg(&output),
    ])
    .code(1)
    .says(&["none", "No such file"]);
}
