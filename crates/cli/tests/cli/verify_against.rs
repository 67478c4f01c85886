//! `bigiron verify --against` finds the pages of the source that a dump lacks.

use std::fs;

use bigiron_format::kdump::KdumpHeaders;

use crate::common::{Lab, PLAIN_FRAME, arg, descriptor_of, run, with};
use crate::damaged_vmcoreinfo::without_copies;

/// Offset of the dump level in a kdump-compressed file.
const DUMP_LEVEL: usize = 4096 + 8;

/// A kdump-compressed dump without the page frame: its bit and its descriptor are gone.
fn without(kdump: &[u8], frame: u64) -> Vec<u8> {
    let layout = KdumpHeaders::read(kdump).unwrap().layout;
    let byte = layout.dumped_bitmap() as usize + frame as usize / 8;
    let mut bytes = with(kdump, byte, &[kdump[byte] & !(1 << (frame % 8))]);
    let begin = layout.descriptors() as usize;
    let bitmap = &bytes[layout.dumped_bitmap() as usize..begin];
    let left: usize = bitmap.iter().map(|byte| byte.count_ones() as usize).sum();
    let (at, end) = (descriptor_of(kdump, frame), begin + left * 24);
    bytes.copy_within(at + 24..end + 24, at);
    bytes
}

/// A kdump-compressed dump without any page.
fn without_all(kdump: &[u8]) -> Vec<u8> {
    let layout = KdumpHeaders::read(kdump).unwrap().layout;
    let nothing = vec![0; layout.bitmap_size as usize];
    with(kdump, layout.dumped_bitmap() as usize, &nothing)
}

/// A dump whose VMCOREINFO note has no page size.
fn without_page_size(dump: &[u8]) -> Vec<u8> {
    let key = b"PAGESIZE=";
    let at = dump.windows(key.len()).position(|window| window == key);
    with(dump, at.unwrap(), b"PAGESIZX=")
}

/// Makes the dump level of an ELF core unknown, as in one of makedumpfile.
fn without_level(core: &[u8]) -> Vec<u8> {
    let name = b"BIGIRON";
    let at = core.windows(name.len()).position(|window| window == name);
    with(core, at.unwrap(), b"ANOTHER")
}

#[test]
fn page_that_the_source_has_and_the_level_keeps_is_missed() {
    let lab = Lab::new();
    let source = arg(lab.vmcore()).to_owned();
    let kdump = fs::read(lab.dump("kdump", &["-d", "31"])).unwrap();
    let one = lab.file("one", &without(&kdump, PLAIN_FRAME));
    // Nothing is wrong with the file alone.
    run(&["verify", arg(&one)]).code(0);
    let outcome = run(&["verify", "--json", arg(&one), "--against", &source]).code(1);
    assert!(
        outcome.text().contains("\"missing\": 1\n"),
        "{}",
        outcome.text()
    );
    assert!(outcome.text().contains("\"complete\": false"));
    outcome.says(&[
        "one: 1 pages that the source has and that its dump level 31 keeps are missing",
        &format!("page frame {PLAIN_FRAME}"),
    ]);
    let all = lab.file("all", &without_all(&kdump));
    run(&["verify", arg(&all), "--against", &source])
        .code(1)
        .says(&["dump level 31 keeps", "missing"]);
    // The pages that level 31 leaves out, in a dump that claims to have all.
    let claim = lab.file("claim", &with(&kdump, DUMP_LEVEL, &[0]));
    run(&["verify", arg(&claim), "--against", &source])
        .code(1)
        .says(&["dump level 0 keeps", "missing"]);
}

#[test]
fn page_that_the_level_leaves_out_is_not_missed() {
    let lab = Lab::new();
    for format in ["kdump", "vmdump"] {
        for level in ["0", "1", "8", "16", "31"] {
            let dump = lab.dump("dump", &["-f", format, "-d", level]);
            let outcome = run(&[
                "verify",
                "--json",
                arg(&dump),
                "--against",
                arg(lab.vmcore()),
            ]);
            let outcome = outcome.code(0);
            let text = outcome.text();
            assert!(text.contains("\"missing\": 0"), "{format}, {level}: {text}");
        }
    }
    // A dump whose source has left out pages already.
    let source = lab.dump("source", &["-d", "16"]);
    let dump = lab.path("again");
    run(&["dump", "-q", "-d", "2", arg(&source), arg(&dump)]).code(0);
    run(&["verify", arg(&dump), "--against", arg(&source)]).code(0);
    run(&["verify", arg(&dump), "--against", arg(lab.vmcore())]).code(0);
}

#[test]
fn where_left_out_pages_cannot_be_told_the_reason_is_printed() {
    let lab = Lab::new();
    let elf = lab.dump("elf", &["-f", "elf", "-d", "31"]);
    let result = run(&["verify", arg(&elf), "--against", arg(lab.vmcore())]).code(0);
    assert_eq!(result.stderr, "");
    let elf = lab.file("unknown", &without_level(&fs::read(elf).unwrap()));
    run(&["verify", arg(&elf), "--against", arg(lab.vmcore())])
        .code(0)
        .says(&["not checked: the dump does not record its dump level"]);

    let core = without_copies();
    let source = lab.file("core", &core);
    let kdump = lab.path("kdump");
    run(&["dump", "-q", "-d", "31", arg(&source), arg(&kdump)]).code(0);
    let kdump = fs::read(kdump).unwrap();
    let source = lab.file("source", &without_page_size(&core));
    // The dump has the VMCOREINFO that the source lacks.
    let one = lab.file("one", &without(&kdump, PLAIN_FRAME));
    run(&["verify", arg(&one), "--against", arg(&source)])
        .code(1)
        .says(&["dump level 31 keeps"]);
    let kdump = without_page_size(&kdump);
    let one = lab.file("one", &without(&kdump, PLAIN_FRAME));
    run(&["verify", arg(&one), "--against", arg(&source)])
        .code(0)
        .says(&[
            "not checked: the kernel in the source cannot be interpreted",
            "PAGESIZE",
        ]);
    // Without any page it is no dump of the source at all.
    let all = lab.file("all", &without_all(&kdump));
    run(&["verify", arg(&all), "--against", arg(&source)])
        .code(1)
        .says(&["pages that the source has are missing"]);
}
