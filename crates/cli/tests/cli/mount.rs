//! `bigiron mount`: a mounted dump as its users see it.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use bigiron_format::PageFrame;
use bigiron_kernel::{IoMethod, Source};

use crate::common;
use crate::common::sample;
use crate::common::{Lab, age, arg, present, run};
use crate::mounted::{Mounted, can_mount};

/// Asserts that every page of RAM of `core`, an ELF core without gaps, is that of `dump`,
/// or zeros if `dump` lacks the page.
#[track_caller]
fn same_pages(core: &Path, dump: &Path) {
    let ours = Source::open(&[core.to_owned()]).unwrap();
    let theirs = Source::open(&[dump.to_owned()]).unwrap();
    assert_eq!(ours.memory().machine(), theirs.memory().machine());
    let mut core_reader = ours.memory().reader(IoMethod::Read);
    let mut dump_reader = theirs.memory().reader(IoMethod::Read);
    let (ram, kept) = (present(core), present(dump));
    let mut count = 0;
    for frame in (0..ram.len()).filter(|frame| ram[*frame]) {
        let page = core_reader.pages(PageFrame(frame as u64), 1).unwrap();
        if kept.get(frame) == Some(&true) {
            let right = dump_reader.pages(PageFrame(frame as u64), 1).unwrap();
            assert!(page == right, "page frame {frame:#x}");
            count += 1;
        } else {
            assert!(page.iter().all(|byte| *byte == 0), "page frame {frame:#x}");
        }
    }
    let all = kept.iter().filter(|kept| **kept).count();
    assert_eq!(count, all, "pages of the dump");
    assert!(all > 1000);
}

/// Asserts that the program reports the same about the mounted core and the dump.
#[track_caller]
fn same_texts(mounted: &Mounted, dump: &Path) {
    for (file, command) in [
        ("dmesg", &["dmesg"][..]),
        ("info.json", &["info", "--json"]),
    ] {
        let said = run(&[command, &[arg(dump)]].concat()).code(0);
        let text = fs::read_to_string(mounted.path(file)).unwrap();
        assert!(text == said.text(), "{file}: {text}");
        let size = fs::metadata(mounted.path(file)).unwrap().len();
        assert_eq!(size, text.len() as u64, "{file}");
    }
    let info = fs::read_to_string(mounted.path("vmcoreinfo")).unwrap();
    assert!(info.starts_with("OSRELEASE="), "{info}");
}

#[test]
fn dumps_of_all_formats_appear_as_elf_cores() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let formats: [(&str, &[&str]); 7] = [
        ("kdump", &["-f", "kdump", "-c", "zstd", "-d", "31"]),
        ("zlib", &["-f", "kdump", "-c", "zlib", "-d", "1"]),
        ("flattened", &["-f", "flattened", "-d", "31"]),
        ("vmdump", &["-f", "vmdump", "-d", "31"]),
        ("whole", &["-f", "vmdump", "-d", "0"]),
        ("bzip2", &["-f", "vmdump", "-c", "bzip2", "-d", "31"]),
        ("elf", &["-f", "elf", "-d", "31"]),
    ];
    for (name, options) in formats {
        let dump = lab.dump(name, options);
        let mounted = Mounted::new(lab.path("mnt"), &[&dump], &[]);
        same_pages(&mounted.path("vmcore"), &dump);
        let same = run(&["diff", arg(&mounted.path("vmcore")), arg(lab.vmcore())]);
        // Level 1 excludes only pages of zeros.
        let is_whole = matches!(name, "whole" | "zlib");
        assert_eq!(same.code == Some(0), is_whole, "{name}");
    }
}

#[test]
fn mounted_core_equals_what_zstd_unpacks_from_a_vmdump() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let dump = lab.dump("vmdump", &["-f", "vmdump", "-d", "31"]);
    let Ok(unpacked) = Command::new("zstd").args(["-dc"]).arg(&dump).output() else {
        println!("skipped: zstd is not installed");
        return;
    };
    let mounted = Mounted::new(lab.path("mnt"), &[&dump], &[]);
    let core = fs::read(mounted.path("vmcore")).unwrap();
    assert!(core == unpacked.stdout, "{} bytes", core.len());
}

#[test]
fn parts_of_a_dump_appear_as_one_core() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let parts = [lab.path("a"), lab.path("b"), lab.path("c")];
    let names: Vec<_> = parts.iter().map(|part| arg(part)).collect();
    let names = names.join(",");
    let make = ["dump", "-q", "-d", "1", "--stripe", &names];
    run(&[&make[..], &[arg(lab.vmcore())]].concat()).code(0);
    let whole = lab.dump("whole", &["-f", "kdump", "-d", "1"]);
    let parts: Vec<_> = parts.iter().map(PathBuf::as_path).collect();
    let mounted = Mounted::new(lab.path("mnt"), &parts, &[]);
    same_pages(&mounted.path("vmcore"), &whole);
}

#[test]
fn encrypted_dump_is_mounted_with_its_key() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let Some((public, key)) = age::keys(&lab, "key") else {
        return;
    };
    let dump = lab.dump("dump", &["-f", "vmdump", "-d", "31", "--encrypt", &public]);
    let plain = lab.dump("plain", &["-f", "vmdump", "-d", "31"]);
    let mounted = Mounted::new(lab.path("mnt"), &[&dump], &["--identity", arg(&key)]);
    same_pages(&mounted.path("vmcore"), &plain);
}

#[test]
fn real_dump_shows_its_log_facts_and_scheduler_domains() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let vmcore = sample::unpack(lab.path("").as_path());
    let dump = lab.path("dump");
    run(&[
        "dump",
        "-q",
        "-d",
        "31",
        "-c",
        "zstd",
        arg(&vmcore),
        arg(&dump),
    ])
    .code(0);
    let mounted = Mounted::new(lab.path("mnt"), &[&dump], &[]);
    same_texts(&mounted, &dump);
    same_pages(&mounted.path("vmcore"), &dump);
    let domain = |file: &str| {
        let path = mounted.path("sched/domains/cpu1/domain0").join(file);
        fs::read_to_string(path).unwrap()
    };
    assert_eq!(
        (domain("name"), domain("span")),
        ("MC\n".into(), "0-1\n".into())
    );
    assert!(domain("flags").starts_with("SD_BALANCE_NEWIDLE "));
    assert!(domain("flags").ends_with(" \n"));
    assert_eq!(
        fs::read_dir(mounted.path("sched/domains")).unwrap().count(),
        2
    );
    let mode = |name: &str| fs::metadata(mounted.path(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("vmcore"), mode("sched")), (0o400, 0o500));
    // The core contains the same log as the dump.
    let of_core = run(&["dmesg", arg(&mounted.path("vmcore"))]).code(0);
    assert_eq!(of_core.text(), run(&["dmesg", arg(&dump)]).code(0).text());
    let denied = File::options().write(true).open(mounted.path("dmesg"));
    assert!(denied.is_err());
    assert!(fs::metadata(mounted.path("none")).is_err());
}

#[test]
fn signal_unmounts() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let dump = lab.dump("dump", &["-f", "vmdump"]);
    for signal in ["INT", "TERM", "HUP"] {
        let mut mounted = Mounted::new(lab.path("mnt"), &[&dump], &[]);
        assert!(mounted.is_listed());
        mounted.signal(signal);
        let ended = mounted.end().code(0);
        assert_eq!(ended.stderr, "", "{signal}");
        assert!(!mounted.is_listed());
    }
}

#[test]
fn program_ends_when_another_program_unmounts() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let mut mounted = Mounted::new(lab.path("mnt"), &[lab.vmcore()], &[]);
    let unmount = |program: &str, options: &[&str]| {
        let mut command = Command::new(program);
        let output = command.args(options).arg(lab.path("mnt")).output();
        output.is_ok_and(|output| output.status.success())
    };
    assert!(unmount("umount", &[]) || unmount("fusermount3", &["-u"]));
    mounted.end().code(0);
}

#[test]
fn open_file_is_served_until_it_is_closed() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let dump = lab.dump("dump", &["-f", "vmdump", "-d", "31"]);
    let mut mounted = Mounted::new(lab.path("mnt"), &[&dump], &[]);
    let mut file = File::open(mounted.path("vmcore")).unwrap();
    let whole = fs::read(mounted.path("vmcore")).unwrap();
    mounted.signal("INT");
    mounted.wait_until_gone();
    let mut late = Vec::new();
    file.read_to_end(&mut late).unwrap();
    assert!(late == whole);
    drop(file);
    mounted
        .end()
        .code(0)
        .says(&["is unmounted", "has a file open"]);
}

#[test]
fn second_signal_ends_the_program_at_once() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let mut mounted = Mounted::new(lab.path("mnt"), &[lab.vmcore()], &[]);
    let file = File::open(mounted.path("vmcore")).unwrap();
    mounted.signal("TERM");
    mounted.wait_until_gone();
    mounted.signal("TERM");
    mounted.end().code(128 + 15);
    drop(file);
}

#[test]
fn helper_unmounts_after_a_killed_program() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let mounted = Mounted::new(lab.path("mnt"), &[lab.vmcore()], &[]);
    mounted.signal("KILL");
    mounted.wait_until_gone();
}

#[test]
fn mount_point_of_a_killed_program_is_reported() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let mounted = Mounted::new(lab.path("mnt"), &[lab.vmcore()], &["--no-sandbox"]);
    mounted.signal("KILL");
    let directory = lab.path("mnt");
    while fs::read_dir(&directory).is_ok() {
        thread::yield_now();
    }
    let again = run(&["mount", arg(lab.vmcore()), arg(&directory)]).code(1);
    again.says(&["the program of an earlier mount has exited", "umount"]);
}

#[test]
fn concurrent_readers_get_the_same_bytes() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let dump = lab.dump("dump", &["-f", "vmdump", "-d", "31"]);
    let once = Mounted::new(lab.path("once"), &[&dump], &["-j", "1"]);
    let right = fs::read(once.path("vmcore")).unwrap();
    let mounted = Mounted::new(lab.path("mnt"), &[&dump], &["-j", "4"]);
    let path = mounted.path("vmcore");
    thread::scope(|scope| {
        for reader in 0..8_usize {
            let (path, right) = (&path, &right);
            scope.spawn(move || {
                let file = File::open(path).unwrap();
                let mut buf = vec![0; 70_001];
                // Each reader has its own order of unaligned offsets.
                for step in 0..right.len() / 50_000 {
                    let at = (step * 7_919_311 + reader * 1_234_577) % right.len();
                    let len = buf.len().min(right.len() - at);
                    file.read_exact_at(&mut buf[..len], at as u64).unwrap();
                    assert!(buf[..len] == right[at..at + len], "at {at}");
                }
            });
        }
    });
}

#[test]
fn lost_page_is_a_read_error_and_not_zeros() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let dump = lab.dump("dump", &["-f", "kdump", "-c", "zlib", "-d", "0"]);
    let bytes = fs::read(&dump).unwrap();
    let at = common::descriptor_of(&bytes, common::PLAIN_FRAME);
    // Data beyond the end of the file.
    let damaged = lab.file(
        "damaged",
        &common::with(&bytes, at, &u64::MAX.to_le_bytes()),
    );
    let mut mounted = Mounted::new(lab.path("mnt"), &[&damaged], &[]);
    let core = Source::open(&[mounted.path("vmcore")]).unwrap();
    let mut reader = core.memory().reader(IoMethod::Read);
    assert!(reader.pages(PageFrame(common::PLAIN_FRAME), 1).is_err());
    assert!(reader.pages(PageFrame(common::PLAIN_FRAME + 1), 1).is_ok());
    drop(reader);
    drop(core);
    mounted.signal("INT");
    let ended = mounted.end().code(0);
    assert!(ended.stderr.contains("damaged"), "{}", ended.stderr);
}

#[test]
fn unusable_mount_point_is_rejected_with_a_reason() {
    let lab = Lab::new();
    let full = lab.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("file"), "").unwrap();
    let refused = |directory: &Path, why: &str| {
        let outcome = run(&["mount", arg(lab.vmcore()), arg(directory)]).code(1);
        outcome.says(&[arg(directory), why]);
    };
    refused(&full, "is not empty");
    refused(&lab.path("none"), "no such directory");
    refused(lab.vmcore(), "is not a directory");
    let empty = lab.path("empty");
    fs::create_dir(&empty).unwrap();
    run(&["mount", arg(&full.join("file")), arg(&empty)]).code(1);
    assert!(fs::read_dir(&empty).unwrap().next().is_none());
}
