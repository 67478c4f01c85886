//! Dumps with a damaged note, and the kernel's copy of VMCOREINFO in their memory: every command
//! that looks for the kernel warns once, and answers as it does for a sound dump.

use std::fs;
use std::path::{Path, PathBuf};

use bigiron_kernel::Source;
use bigiron_synth::{ElfImage, ElfShape, Synth};

use crate::common::{Lab, Outcome, arg, run, with};
use crate::damaged_vmcoreinfo::{IN_MEMORY, all, without_text};
use crate::mounted::{Mounted, can_mount};

const MACHINE: &str = "kernel 6.12
    ram 0x0-0x9f 0x100-0xfff
    pages 0x200 free order=9
    pages 0x400 slab n=64 fill=random
    log lockless n=30";
/// What each run with a note of an invalid size says.
const UNREAD: &str = "the ELF notes after a damaged one are not read";

/// A dump with a damaged note.
struct Damaged {
    path: PathBuf,
    /// What its warning says, besides the name of the file.
    says: &'static str,
    /// The offset of the damage.
    offset: usize,
}

impl Damaged {
    /// Writes the dump. Its file name is that of the sound one.
    fn new(lab: &Lab, name: &str, says: &'static str, (bytes, offset): (Vec<u8>, usize)) -> Self {
        fs::create_dir(lab.path(name)).unwrap();
        let path = lab.file(&format!("{name}/vmcore"), &bytes);
        Self { path, says, offset }
    }

    /// Asserts that a run warned of this dump once.
    #[track_caller]
    fn is_named_once(&self, outcome: &Outcome) {
        let told = &outcome.stderr;
        let is_meant = |line: &&str| line.contains(self.says) && line.contains(arg(&self.path));
        let warnings: Vec<_> = told.lines().filter(is_meant).collect();
        let [warning] = warnings[..] else {
            panic!("{} warnings in: {told}", warnings.len());
        };
        let mut all = told.lines().filter(|line| line.contains(self.says));
        assert!(
            all.all(|line| line.contains('/')),
            "a file is not named: {told}"
        );
        let offset = format!("offset {:#x}", self.offset);
        assert!(warning.contains(&offset), "no {offset} in: {warning}");
    }
}

/// Writes the sound core over that of the lab, and returns damaged ones.
fn cores(lab: &Lab) -> Vec<Damaged> {
    let machine = Synth::from_text(MACHINE).unwrap();
    let image: ElfImage = machine.elf_image(&ElfShape::vmcore());
    let core = &image.bytes;
    fs::write(lab.vmcore(), core).unwrap();
    let text = all(core, b"OSRELEASE=")[0];
    let mut notes = image.notes.iter();
    let note = notes.find(|note| note.desc.contains(&text)).unwrap();
    let key = all(core, b"SYMBOL(swapper_pg_dir)")[0];
    let size = note.header + 4;
    vec![
        Damaged::new(
            lab,
            "text",
            IN_MEMORY,
            without_text(core, b"SYMBOL(swapper_pg_dir)"),
        ),
        Damaged::new(
            lab,
            "key",
            IN_MEMORY,
            (with(core, key, b"SYMBAL"), note.desc.start),
        ),
        Damaged::new(
            lab,
            "size",
            UNREAD,
            (with(core, size, &u32::MAX.to_le_bytes()), size),
        ),
    ]
}

/// Writes a kdump-compressed dump of the sound core with a damaged text, whose pages have a copy.
fn kdump(lab: &Lab) -> Damaged {
    let kdump = fs::read(lab.dump("kdump", &["-d", "31"])).unwrap();
    let damage = without_text(&kdump, b"SYMBOL(swapper_pg_dir)");
    Damaged::new(lab, "kdump-text", IN_MEMORY, damage)
}

/// Asserts that commands which read a dump answer as for `sound`.
#[track_caller]
fn is_read_as(damaged: &Damaged, sound: &Path) {
    for command in [&["info"][..], &["info", "--memory"], &["dmesg"]] {
        let outcome = run(&[command, &[arg(&damaged.path)]].concat()).code(0);
        let expected = run(&[command, &[arg(sound)]].concat()).code(0);
        assert_eq!(expected.stderr, "", "{command:?}");
        assert!(outcome.text() == expected.text(), "{command:?}");
        damaged.is_named_once(&outcome);
    }
    // Here the warnings are part of the answer.
    for command in [&["info", "--json"][..], &["report", "-o", "-"]] {
        let outcome = run(&[command, &[arg(&damaged.path)]].concat()).code(0);
        assert!(outcome.text().contains(damaged.says), "{command:?}");
        damaged.is_named_once(&outcome);
    }
}

#[test]
fn commands_answer_as_for_a_sound_dump_and_warn_once() {
    let lab = Lab::new();
    for damaged in cores(&lab) {
        is_read_as(&damaged, lab.vmcore());
    }
    let damaged = kdump(&lab);
    fs::create_dir(lab.path("sound")).unwrap();
    fs::rename(lab.path("kdump"), lab.path("sound/vmcore")).unwrap();
    is_read_as(&damaged, &lab.path("sound/vmcore"));
}

#[test]
fn dumps_under_both_names_and_verify_warn_once() {
    let lab = Lab::new();
    for damaged in cores(&lab) {
        let expected = lab.dump("expected", &["-d", "31"]);
        for program in [
            &["dump", "-q", "--overwrite"][..],
            &["makedumpfile", "-f", "-z"],
            &["makedumpfile", "-f", "-E"],
        ] {
            let output = lab.path("out");
            let files = ["-d", "31", arg(&damaged.path), arg(&output)];
            damaged.is_named_once(&run(&[program, &files].concat()).code(0));
            if program[0] == "dump" {
                run(&["diff", arg(&output), arg(&expected)]).code(0);
            }
            let verify = ["verify", arg(&output), "--against", arg(&damaged.path)];
            damaged.is_named_once(&run(&verify).code(0));
        }
        let log = lab.path("log");
        let dmesg = ["makedumpfile", "-f", "--dump-dmesg"];
        let files = [arg(&damaged.path), arg(&log)];
        damaged.is_named_once(&run(&[&dmesg[..], &files].concat()).code(0));
        assert!(fs::read_to_string(&log).unwrap().contains("record 28"));
    }
}

#[test]
fn saved_core_of_a_damaged_dump_has_the_sound_vmcoreinfo() {
    let lab = Lab::new();
    cores(&lab);
    let damaged = kdump(&lab);
    let directory = lab.path("saved/");
    let outcome = run(&["save", "-f", arg(&damaged.path), arg(&directory)]).code(0);
    damaged.is_named_once(&outcome);
    let saved = directory.join("vmcore.0");
    let info = |path: &Path| {
        let source = Source::open(&[path.to_owned()]).unwrap();
        source.memory().vmcoreinfo_note().unwrap().text.to_vec()
    };
    assert_eq!(
        info(&saved).trim_ascii_end(),
        info(lab.vmcore()).trim_ascii_end()
    );
}

#[test]
fn damaged_dump_is_mounted_with_its_log() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let expected = {
        cores(&lab);
        run(&["dmesg", arg(lab.vmcore())]).code(0).text()
    };
    let damaged = kdump(&lab);
    let mut mounted = Mounted::new(lab.path("mnt"), &[&damaged.path], &[]);
    assert_eq!(fs::read_to_string(mounted.path("dmesg")).unwrap(), expected);
    mounted.signal("TERM");
    damaged.is_named_once(&mounted.end());
}
