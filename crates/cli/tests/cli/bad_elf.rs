//! Files that are not dumps, and damaged or hostile ELF cores.

use crate::common;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bigiron_format::elf::CoreHeaders;
use bigiron_format::elf::note::{self, Notes};
use bigiron_synth::ElfShape;

use crate::common::{
    Lab, arg, image, incomplete_but_equal, machine, make_pipe, refused, run, survives, with,
};
#[test]
fn files_that_are_not_dumps_are_rejected_with_their_name() {
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
fn named_pipe_as_source_does_not_hang() {
    let lab = Lab::new();
    let pipe = lab.path("pipe");
    make_pipe(&pipe);
    refused(&pipe, &["is a pipe", "give -"]);
}

#[test]
fn elf_file_of_another_type_is_rejected_with_the_offset() {
    let lab = Lab::new();
    let refuse = |at: usize, new: &[u8], parts: &[&str]| {
        refused(&lab.file("bad", &with(&image().bytes, at, new)), parts);
    };
    refuse(0, b"\x7fELG", &["signature", "offset 0"]);
    refuse(4, &[1], &["32-bit", "byte 4"]);
    refuse(5, &[2], &["offset 0x10"]);
    refuse(5, &[3], &["byte order", "offset 0x5"]);
    refuse(16, &[2, 0], &["core file", "offset 0x10"]);
    let outcome = refused(&lab.file("bad", &with(&image().bytes, 4, &[1])), &[]);
    assert_eq!(outcome.stderr.matches("32-bit").count(), 1, "said twice");
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
fn counts_and_sizes_beyond_the_end_of_an_elf_file_are_rejected() {
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
fn segments_where_no_machine_has_memory_are_left_out_with_a_warning() {
    let lab = Lab::new();
    let image = image();
    // The first segment maps the kernel image a second time.
    let load = image.loads[0].phdr;
    let whole = lab.file("whole", &image.bytes);
    let (expected, output) = (lab.path("expected"), lab.path("out"));
    run(&["dump", arg(&whole), arg(&expected)]).code(0);
    for address in [1 << 60, u64::MAX - 8] {
        let bytes = with(&image.bytes, load + 24, &u64::to_le_bytes(address));
        let source = lab.file("bad", &bytes);
        run(&["dump", "--overwrite", arg(&source), arg(&output)])
            .code(0)
            .says(&["no machine has memory", &format!("{address:#x}")]);
        run(&["diff", arg(&expected), arg(&output)]).code(0);
    }
    let mut bytes = image.bytes.clone();
    for load in &image.loads {
        bytes = with(&bytes, load.phdr + 24, &(1_u64 << 60).to_le_bytes());
    }
    refused(&lab.file("bad", &bytes), &["no machine has memory"]);
}

#[test]
fn machines_that_are_not_supported_are_refused_with_the_programs_for_them() {
    let lab = Lab::new();
    let class_32 = with(&image().bytes, 4, &[1]);
    let i386 = lab.file("i386", &with(&class_32, 18, &[3, 0]));
    refused(&i386, &["32-bit x86", "makedumpfile", "x86_64"]);
    let mips = lab.file("mips", &with(&image().bytes, 18, &[8, 0]));
    refused(&mips, &["MIPS", "crash", "x86_64"]);
    let unknown = lab.file("unknown", &with(&image().bytes, 18, &[0xff, 0x7f]));
    refused(&unknown, &["machine 32767", "offset 18", "aarch64"]);
    let kdump = lab.path("kdump");
    let source = lab.file("whole", &image().bytes);
    run(&["dump", arg(&source), arg(&kdump)]).code(0);
    let bytes = fs::read(&kdump).unwrap();
    // utsname.machine of the header.
    let arm = lab.file("arm", &with(&bytes, 272, b"armv7l\0"));
    refused(&arm, &["32-bit Arm", "makedumpfile", "x86_64"]);
}

#[test]
fn vmcoreinfo_is_found_in_memory_if_a_note_has_an_invalid_size() {
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
fn elf_core_truncated_in_its_headers_is_rejected_but_in_its_data_is_read() {
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
fn dump_of_a_truncated_elf_core_warns_and_is_marked_incomplete() {
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
    incomplete_but_equal(&lab.path("kdump"), lab.vmcore());
}

#[test]
fn overlapping_and_unsorted_segments_give_the_same_dump() {
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
fn segment_of_petabytes_is_rejected_at_once() {
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
fn memory_at_high_addresses_does_not_enlarge_the_bitmaps_of_a_stream() {
    let lab = Lab::new();
    let load = image().loads.last().unwrap().phdr;
    let far = with(&image().bytes, load + 24, &(1_u64 << 51).to_le_bytes());
    let source = lab.file("far", &far);
    survives(&source);
    let outcome = run(&["dump", "-d", "1", arg(&source), "-"]);
    assert!(matches!(outcome.code, Some(0 | 1)), "{}", outcome.stderr);
    assert!(outcome.stdout.len() < 1 << 30);
}

#[test]
fn core_with_a_damaged_note_after_vmcoreinfo_is_dumped_with_a_warning() {
    let lab = Lab::new();
    let mut bytes = image().bytes.clone();
    let headers = CoreHeaders::read(&bytes).unwrap();
    let info = headers.notes().vmcoreinfo().unwrap().unwrap();
    let info = note::encode(info.name, info.n_type, info.desc, headers.endian);
    let others = headers
        .notes()
        .intact()
        .filter(|n| n.name != note::VMCOREINFO);
    let others = others.map(|n| note::encode(n.name, n.n_type, n.desc, headers.endian));
    let mut notes = [info, others.collect::<Vec<_>>().concat()].concat();
    assert_eq!(notes.len(), headers.notes.len());
    let last = Notes::new(&notes, headers.endian, 0)
        .intact()
        .last()
        .unwrap();
    // Its name takes 8 bytes, so n_descsz is 16 bytes before the descriptor.
    let n_descsz = last.desc_offset - 16;
    notes[n_descsz..n_descsz + 4].copy_from_slice(&(1_u32 << 20).to_le_bytes());
    let offset = headers.notes_offset as usize;
    bytes[offset..offset + notes.len()].copy_from_slice(&notes);
    let vmcore = lab.file("damaged", &bytes);
    let warning = format!("n_descsz of an ELF note at offset {:#x}", offset + n_descsz);
    let output = lab.path("out");
    run(&["dump", "-d", "1", arg(&vmcore), arg(&output)])
        .code(0)
        .says(&["warning", arg(&vmcore), &warning]);
    run(&["info", arg(&output)])
        .code(0)
        .says(&["warning", "n_descsz of an ELF note"]);
}
