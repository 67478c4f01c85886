//! Dumps with a damaged VMCOREINFO: the kernel's copy in memory is used, and without one they are
//! dumped, saved and verified at levels that need no struct pages.

use std::fs;
use std::path::{Path, PathBuf};

use bigiron_format::elf::note;
use bigiron_format::kdump::KdumpHeaders;
use bigiron_kernel::Source;

use crate::common::{Lab, arg, image, machine, run, with};

/// What each dump without VMCOREINFO says.
const WITHOUT: &str = "the dump is made without VMCOREINFO";
/// What each use of the copy in memory says.
pub const IN_MEMORY: &str = "its copy in memory is used";
/// Offset of offset_vmcoreinfo in a kdump-compressed file.
const OFFSET_VMCOREINFO: usize = 4096 + 32;

/// Returns the offsets of `key` in the bytes.
pub fn all(bytes: &[u8], key: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(key.len()).enumerate();
    let found = windows.filter(|(_, window)| *window == key);
    found.map(|(at, _)| at).collect()
}

/// Damages the first `key` in the bytes so that it is no text; returns also the offset of the damage.
pub fn without_text(bytes: &[u8], key: &[u8]) -> (Vec<u8>, usize) {
    let at = all(bytes, key)[0] + 1;
    (with(bytes, at, &[bytes[at] ^ 0x80]), at)
}

/// A core whose memory has no copy of VMCOREINFO: only a note has one.
pub fn without_copies() -> Vec<u8> {
    let core = &image().bytes;
    let is_noted = |at: usize| image().notes.iter().any(|note| note.desc.contains(&at));
    let copies = all(core, b"OSRELEASE=").into_iter();
    let copies = copies.filter(|at| !is_noted(*at));
    copies.fold(core.clone(), |bytes, at| with(&bytes, at, b"0"))
}

/// A core with damages, each with parts of the message that names it.
fn damaged(core: &[u8]) -> Vec<(&'static str, Vec<u8>, Vec<String>)> {
    let at = all(core, b"OSRELEASE=")[0];
    let info = image().notes.iter().find(|note| note.desc.contains(&at));
    let (header, desc) = info.map(|note| (note.header, note.desc.clone())).unwrap();
    let offset = format!("offset {:#x}", desc.start);
    let (text, damage) = without_text(core, b"SYMBOL(swapper_pg_dir)");
    let key = all(core, b"SYMBOL(swapper_pg_dir)")[0];
    let cut = u32::try_from(all(core, b"\nSYMBOL(")[0] - desc.start).unwrap();
    vec![
        (
            "text",
            text,
            vec![format!("offset {damage:#x}"), "binary data".into()],
        ),
        (
            "key",
            with(core, key, b"SYMBAL"),
            vec![offset.clone(), "no SYMBOL(swapper_pg_dir)".into()],
        ),
        (
            "cut",
            cut_note(core, header, cut),
            vec![offset, "VMCOREINFO has no".into()],
        ),
        (
            "note",
            with(core, header + 4, &u32::MAX.to_le_bytes()),
            vec![
                format!("n_descsz of an ELF note at offset {:#x}", header + 4),
                "no VMCOREINFO".into(),
            ],
        ),
    ]
}

/// Ends the text of the note at `header` after `len` bytes.
fn cut_note(core: &[u8], header: usize, len: u32) -> Vec<u8> {
    let name = note::VMCOREINFO.len() + 1;
    let desc = header + 12 + name.next_multiple_of(4);
    let old = u32::from_le_bytes(core[header + 4..header + 8].try_into().unwrap());
    with(core, desc + len as usize, &vec![0; (old - len) as usize])
}

#[test]
fn copy_in_memory_is_used_where_the_note_is_damaged() {
    let lab = Lab::new();
    let sound = lab.vmcore();
    let expected = lab.dump("expected", &["-d", "31"]);
    let answers = |dump: &Path| {
        [&["info"][..], &["info", "--memory"]].map(|command| {
            let outcome = run(&[command, &[arg(dump)]].concat()).code(0);
            (outcome.stdout, outcome.stderr)
        })
    };
    let sound_answers = answers(sound);
    for (name, core, parts) in damaged(&image().bytes) {
        // Its message comes from the notes.
        if name == "note" {
            continue;
        }
        let source = lab.file(name, &core);
        for ((text, told), (sound, _)) in answers(&source).iter().zip(&sound_answers) {
            assert_eq!(text, sound, "{name}");
            for part in parts
                .iter()
                .map(String::as_str)
                .chain([arg(&source), IN_MEMORY])
            {
                assert!(told.contains(part), "{name}: {told}");
            }
        }
        let output = lab.path("out");
        let dump = [
            "dump",
            "--overwrite",
            "-d",
            "31",
            arg(&source),
            arg(&output),
        ];
        let outcome = run(&dump).code(0).says(&["warning: ", IN_MEMORY]);
        assert!(!outcome.stderr.contains(WITHOUT), "{}", outcome.stderr);
        run(&["diff", arg(&output), arg(&expected)]).code(0);
        // Readers of the dump find what it was made with.
        let told = &answers(&output)[0].1;
        assert!(!told.contains("damaged"), "{name}: {told}");
    }
}

#[test]
fn damaged_vmcoreinfo_without_a_copy_is_dumped_without_at_levels_0_and_1() {
    let lab = Lab::new();
    for (name, core, parts) in damaged(&without_copies()) {
        let source = lab.file(name, &core);
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        for (level, format) in [
            ("0", "kdump"),
            ("0", "elf"),
            ("1", "vmdump"),
            ("1", "kdump"),
        ] {
            let output = lab.path("out");
            let dump = ["dump", "--overwrite", "-d", level, "-f", format];
            let outcome = run(&[&dump[..], &[arg(&source), arg(&output)]].concat());
            let outcome = outcome.code(0);
            assert_eq!(
                outcome.stderr.matches(WITHOUT).count(),
                1,
                "{}",
                outcome.stderr
            );
            outcome.says(&["warning: ", arg(&source)]).says(&parts);
            let verify = ["verify", "--json", arg(&output), "--against"];
            let text = run(&[&verify[..], &[arg(&source)]].concat()).code(0).text();
            assert!(text.contains("\"missing\": 0"), "{name}, {format}: {text}");
            assert!(text.contains("\"complete\": true"), "{text}");
            if level == "0" {
                run(&["diff", arg(&output), arg(&source)]).code(0);
            }
            check_is_kept(&output, &source);
        }
    }
}

/// The damaged text is in the dump as it is in its source.
fn check_is_kept(dump: &Path, source: &Path) {
    let text = |path: &Path| {
        let opened = Source::open(&[path.to_owned()]).unwrap();
        let note = opened.memory().vmcoreinfo_note();
        note.map(|note| note.text.trim_ascii_end().to_vec())
    };
    assert_eq!(text(dump), text(source));
}

#[test]
fn level_that_needs_struct_pages_is_refused_with_what_to_do() {
    let lab = Lab::new();
    let output = lab.path("out");
    let given = lab.file("info", machine().vmcoreinfo().as_bytes());
    for (name, core, parts) in damaged(&without_copies()) {
        let source = lab.file(name, &core);
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        for level in ["2", "31"] {
            let dump = [
                "dump",
                "--overwrite",
                "-d",
                level,
                arg(&source),
                arg(&output),
            ];
            let outcome = run(&dump).code(1).says(&parts);
            outcome.says(&[arg(&source), "-d 1", "--vmcoreinfo"]);
            assert!(!output.exists());
            let dump = [&dump[..], &["--vmcoreinfo", arg(&given)]].concat();
            let outcome = run(&dump).code(0);
            assert!(!outcome.stderr.contains(WITHOUT), "{}", outcome.stderr);
            run(&["verify", arg(&output), "--against", arg(&source)]).code(0);
            fs::remove_file(&output).unwrap();
        }
    }
}

#[test]
fn vmcoreinfo_of_another_kernel_and_erasing_need_a_kernel_at_every_level() {
    let lab = Lab::new();
    let output = lab.path("out");
    let other = machine().vmcoreinfo().replace("OSRELEASE=6", "OSRELEASE=5");
    let other = lab.file("other", other.as_bytes());
    let dump = ["dump", "-d", "0", "--vmcoreinfo", arg(&other)];
    run(&[&dump[..], &[arg(lab.vmcore()), arg(&output)]].concat())
        .code(1)
        .says(&["the dump of"]);
    let source = lab.file("text", &without_text(&without_copies(), b"PAGESIZE=").0);
    let config = lab.file("config", b"[vmlinux]\nerase init_task\n");
    let dump = ["dump", "-d", "0", "--erase", arg(&config)];
    run(&[&dump[..], &[arg(&source), arg(&output)]].concat())
        .code(1)
        .says(&["binary data", arg(&source)]);
    assert!(!output.exists());
}

/// Makes a kdump-compressed dump whose memory has no copy of VMCOREINFO.
fn kdump(lab: &Lab) -> PathBuf {
    let core = lab.file("without-copies", &without_copies());
    let kdump = lab.path("kdump");
    run(&["dump", "-d", "31", arg(&core), arg(&kdump)]).code(0);
    kdump
}

#[test]
fn kdump_compressed_dump_with_damaged_vmcoreinfo_is_converted_and_saved() {
    let lab = Lab::new();
    let kdump = fs::read(kdump(&lab)).unwrap();
    let sound = KdumpHeaders::read(&kdump).unwrap();
    let (bytes, damage) = without_text(&kdump, b"SYMBOL(_stext)");
    let source = lab.file("text", &bytes);
    let place = format!("offset {damage:#x}");
    let output = lab.path("out");
    for format in ["elf", "vmdump", "kdump"] {
        let dump = ["dump", "--overwrite", "-d", "0", "-f", format];
        run(&[&dump[..], &[arg(&source), arg(&output)]].concat())
            .code(0)
            .says(&[WITHOUT, &place]);
        // ELF cores have zeros between pages that are near each other.
        if format != "elf" {
            run(&["diff", arg(&output), arg(&source)]).code(0);
        }
        run(&["verify", arg(&output), "--against", arg(&source)]).code(0);
    }
    // What is sound of the header and of VMCOREINFO is kept.
    let again = KdumpHeaders::read(&fs::read(&output).unwrap()).unwrap();
    assert_eq!(again.utsname, sound.utsname);
    assert_eq!(again.phys_base, sound.phys_base);
    assert_eq!(again.dump_level, sound.dump_level);
    check_is_kept(&output, &source);

    let directory = lab.path("saved/");
    run(&["save", "-f", arg(&source), arg(&directory)])
        .code(0)
        .says(&[WITHOUT, &place, arg(&source)]);
    run(&[
        "verify",
        arg(&directory.join("vmcore.0")),
        "--against",
        arg(&source),
    ])
    .code(0);
    run(&["verify", arg(&source)]).code(0);
    run(&["diff", arg(&source), arg(&lab.path("kdump"))]).code(0);
}

#[test]
fn page_size_of_the_header_is_used_if_that_of_vmcoreinfo_differs() {
    let lab = Lab::new();
    let kdump = fs::read(kdump(&lab)).unwrap();
    let at = all(&kdump, b"PAGESIZE=4096")[0];
    let source = lab.file("size", &with(&kdump, at, b"PAGESIZE=8192"));
    let output = lab.path("out");
    run(&["dump", "-d", "1", arg(&source), arg(&output)])
        .code(0)
        .says(&[WITHOUT, "PAGESIZE in VMCOREINFO is 8192"]);
    run(&["diff", arg(&output), arg(&source)]).code(0);
}

#[test]
fn vmcoreinfo_that_the_sub_header_misplaces_is_read_from_its_note() {
    let lab = Lab::new();
    let kdump = fs::read(lab.dump("kdump", &["-d", "31"])).unwrap();
    let huge = (1_u64 << 50).to_le_bytes();
    let source = lab.file("misplaced", &with(&kdump, OFFSET_VMCOREINFO, &huge));
    let output = lab.path("out");
    run(&["dump", "-d", "31", arg(&source), arg(&output)])
        .code(0)
        .says(&["warning", "the place of VMCOREINFO", "truncated"]);
    run(&["diff", arg(&output), arg(&source)]).code(0);
    run(&["verify", arg(&source)])
        .code(1)
        .says(&["the place of VMCOREINFO", arg(&source)]);
}
