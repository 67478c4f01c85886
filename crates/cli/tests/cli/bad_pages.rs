//! Damaged pages, and hostile memory contents in dumps with valid headers.

use crate::common;
use std::fs;

use bigiron_format::codec::{Codec, Compression};
use bigiron_format::kdump::{KdumpHeaders, flags_of_codec};
use bigiron_synth::{ElfShape, Machine};

use crate::common::{
    Lab, PLAIN_FRAME, arg, descriptor_of, field, incomplete_but_equal, machine, refused, run,
    survives, with,
};
/// A dump in which the data of one page is replaced.
fn with_page(kdump: &[u8], data: &[u8], flags: u32) -> Vec<u8> {
    let at = descriptor_of(kdump, PLAIN_FRAME);
    let mut bytes = with(kdump, at, &(kdump.len() as u64).to_le_bytes());
    bytes = with(&bytes, at + 8, &(data.len() as u32).to_le_bytes());
    bytes = with(&bytes, at + 12, &flags.to_le_bytes());
    bytes.extend(data);
    bytes
}

/// Asserts that the page is lost and named, and that all others are kept.
#[track_caller]
fn loses_one_page(lab: &Lab, name: &str, bytes: &[u8]) {
    let (source, output) = (lab.file("damaged", bytes), lab.path("out"));
    let outcome = run(&["dump", "--json", "--overwrite", arg(&source), arg(&output)]).code(0);
    let frame = format!("{PLAIN_FRAME:#x}");
    let outcome = outcome.says(&["warning: 1 page cannot be read", &frame, arg(&source)]);
    assert!(outcome.text().contains(&format!("{PLAIN_FRAME}")), "{name}");
    incomplete_but_equal(&output, lab.vmcore());
    let kept = common::present(&output).iter().filter(|bit| **bit).count();
    let verified = run(&["verify", arg(&output), "--json"]).code(1).text();
    assert!(verified.contains("\"lost\": 1,"), "{name}: {verified}");
    assert!(
        verified.contains(&format!("\"pages\": {},", kept - 1)),
        "{name}: {verified}"
    );
    // The error names the damaged source and the offset.
    run(&["verify", arg(&source)]).code(1).says(&["damaged"]);
}

#[test]
fn damaged_page_is_lost_and_reported_and_the_others_are_kept() {
    let lab = Lab::new();
    let kdump = fs::read(lab.dump("kdump", &["-d", "31"])).unwrap();
    let descriptor = descriptor_of(&kdump, PLAIN_FRAME);
    let bitmap = KdumpHeaders::read(kdump.as_slice())
        .unwrap()
        .layout
        .ram_bitmap() as u32;
    let descriptors = [
        ("a size of 0", 8, [0; 4]),
        ("a size beyond a page", 8, [0, 0, 1, 0]),
        ("an unknown codec", 12, [0x40, 0, 0, 0]),
        ("two codecs", 12, [3, 0, 0, 0]),
        ("an offset beyond the file", 4, [0, 0, 1, 0]),
        ("an offset beyond all files", 4, [0xff; 4]),
        ("an offset in the header", 0, 1_u32.to_le_bytes()),
        ("an offset in a bitmap", 0, bitmap.to_le_bytes()),
        (
            "an offset in the descriptors",
            0,
            (descriptor as u32).to_le_bytes(),
        ),
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
        assert!(size <= 4096, "{} does not compress enough", codec.name());
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
fn descriptors_that_overlap_or_share_an_offset_cause_no_crash() {
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
fn reading_loops_in_page_tables_and_mem_section_ends() {
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
fn without_struct_pages_level_1_works_and_higher_levels_fail_with_a_reason() {
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
fn vmcoreinfo_of_another_kernel_is_rejected_with_its_name() {
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
