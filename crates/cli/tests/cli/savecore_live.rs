//! `savecore -L`: a dump of the running kernel, written directly to the directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bigiron_dump::{
    ChunkCompression, DumpError, DumpOptions, Format, Progress, Subject, ZstdChunks, save_kernel,
};
use bigiron_helpers::Stop;
use bigiron_kernel::{IoMethod, Kernel, RUNNING_KERNEL, Source};

use crate::common::{Lab, Outcome, SmallDisk, arg, finish, run, shell};
use crate::save::{complete_and_equal, lab};

/// Runs savecore with a permissive umask.
#[track_caller]
fn savecore(options: &[&str]) -> Outcome {
    let line = [&["savecore"], options].concat();
    finish(shell("umask 000;", &line).spawn().unwrap())
}

fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn directory(lab: &Lab) -> PathBuf {
    let directory = lab.path("saved");
    fs::create_dir(&directory).unwrap();
    directory
}

#[test]
fn kernel_without_proc_kcore_is_reported_and_no_file_is_left() {
    if Path::new(RUNNING_KERNEL).exists() {
        println!("skipped: this kernel has {RUNNING_KERNEL}; vmtest/live dumps one");
        return;
    }
    let lab = lab();
    let directory = lab.path("nowhere");
    for options in [&["-L"][..], &["-Lv"], &["-L", "-f", RUNNING_KERNEL]] {
        let line = [options, &[arg(&directory)]].concat();
        savecore(&line)
            .code(1)
            .says(&["savecore: /proc/kcore", "CONFIG_PROC_KCORE"]);
        assert!(!directory.exists());
    }
    savecore(&["-L", "-r"]).code(2).says(&["-L and -r"]);
}

#[test]
fn each_dump_gets_the_next_number_and_replaces_nothing() {
    let lab = lab();
    let directory = directory(&lab);
    fs::write(directory.join("unix.4"), "other data").unwrap();
    let line = ["-L", "-v", "-f", arg(lab.vmcore()), arg(&directory)];
    savecore(&line).code(0).says(&["vmcore.5", "dmesg.5"]);
    let first = fs::read(directory.join("vmcore.5")).unwrap();
    let quiet = savecore(&["-Lf", arg(lab.vmcore()), arg(&directory)]).code(0);
    assert_eq!(quiet.stderr, "");
    let expected = [
        "dmesg.5", "dmesg.6", "info.5", "info.6", "unix.4", "vmcore.5", "vmcore.6",
    ];
    assert_eq!(names(&directory), expected);
    assert!(fs::read(directory.join("vmcore.5")).unwrap() == first);
    for name in expected.iter().filter(|name| **name != "unix.4") {
        let mode = fs::metadata(directory.join(name)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
    let info = fs::read_to_string(directory.join("info.6")).unwrap();
    for line in ["file: vmcore.6\n", "kernel: 6.12.0-synth\n"] {
        assert!(info.contains(line), "{info}");
    }
    assert!(!info.contains("incomplete"), "{info}");
    let core = directory.join("vmcore.6");
    complete_and_equal(&core, lab.vmcore());
    let log = run(&["dmesg", arg(lab.vmcore())]).code(0).stdout;
    assert!(fs::read(directory.join("dmesg.6")).unwrap() == log);
}

#[test]
fn next_run_replaces_the_file_of_a_killed_run() {
    let lab = lab();
    let directory = directory(&lab);
    let left = directory.join(format!("vmcore.{}.incomplete", "0".repeat(32)));
    fs::write(&left, vec![0xff; 100 << 20]).unwrap();
    fs::set_permissions(&left, fs::Permissions::from_mode(0o600)).unwrap();
    savecore(&["-Lf", arg(lab.vmcore()), arg(&directory)]).code(0);
    assert_eq!(names(&directory), ["dmesg.0", "info.0", "vmcore.0"]);
    complete_and_equal(&directory.join("vmcore.0"), lab.vmcore());
}

#[test]
fn concurrent_runs_get_different_numbers() {
    let lab = lab();
    let directory = directory(&lab);
    let line = ["savecore", "-Lf", arg(lab.vmcore()), arg(&directory)];
    let both = [(); 2].map(|()| shell("", &line).spawn().unwrap());
    for run in both {
        finish(run).code(0);
    }
    assert_eq!(
        names(&directory),
        [
            "dmesg.0", "dmesg.1", "info.0", "info.1", "vmcore.0", "vmcore.1"
        ]
    );
    complete_and_equal(&directory.join("vmcore.1"), lab.vmcore());
}

#[test]
fn minfree_is_respected_and_a_full_disk_keeps_no_file() {
    let lab = lab();
    let directory = directory(&lab);
    fs::write(directory.join("minfree"), u64::MAX.to_string()).unwrap();
    let line = ["-Lf", arg(lab.vmcore()), arg(&directory)];
    savecore(&line).code(1).says(&["must stay free"]);
    assert_eq!(names(&directory), ["minfree"]);

    let small = lab.path("small");
    let Some(_disk) = SmallDisk::mount(&small, 4) else {
        println!("skipped: a full disk, since mounting is not permitted");
        return;
    };
    savecore(&["-Lf", arg(lab.vmcore()), arg(&small)])
        .code(1)
        .says(&["cannot write", "limit"]);
    assert_eq!(names(&small), [""; 0]);
}

#[test]
fn dump_of_the_running_kernel_is_a_vmdump_marked_as_live() {
    let lab = lab();
    let directory = directory(&lab);
    let core = fs::read(lab.vmcore()).unwrap();
    let running = Source::from_bytes(Box::new(core), PathBuf::from(RUNNING_KERNEL)).unwrap();
    let subject = Subject::from(Kernel::find(&running, None, IoMethod::Read, 16).unwrap());
    let options = DumpOptions {
        threads: 2,
        ..DumpOptions::default()
    };
    let (progress, stop) = (Progress::new(), Stop::new());
    let make = || {
        let source = Path::new(RUNNING_KERNEL);
        let format = Format::Vmdump(ChunkCompression::Zstd(ZstdChunks::default()));
        save_kernel(
            &subject, source, &directory, format, &options, &progress, &stop,
        )
    };
    let (saved, summary) = make().unwrap();
    assert_eq!((saved.number, summary.lost), (0, 0));
    assert_eq!(saved.path, directory.join("vmdump.0"));
    assert_eq!(saved.bytes, fs::metadata(&saved.path).unwrap().len());
    complete_and_equal(&saved.path, lab.vmcore());
    let made = Source::open(std::slice::from_ref(&saved.path)).unwrap();
    let notes = made.memory().notes();
    assert!(notes.live_task().is_some());
    // A signal leaves no file, and the error mentions none.
    stop.set();
    let error = make().unwrap_err();
    assert!(matches!(error, DumpError::Interrupted { kept: None }));
    assert_eq!(names(&directory), ["info.0", "vmdump.0"]);
}
