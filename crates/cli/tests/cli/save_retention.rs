//! `bigiron save --keep-dumps` and `--max-size`.

use std::fs;
#[cfg(feature = "inspect")]
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[cfg(feature = "inspect")]
use bigiron_synth::{ElfShape, KernelLog, LogForm, LogRecord, Synth};

use crate::common::{arg, run};
use crate::save::SaveLab;

/// A directory with dumps 0 to 2 that are older than the next one, and their logs.
fn with_older_dumps() -> SaveLab {
    let place = SaveLab::with_dump(&[]);
    for number in 0..3 {
        for (stem, bytes) in [("vmdump", 256 << 10), ("dmesg", 1000), ("info", 100)] {
            let path = place.file(&format!("{stem}.{number}"));
            write_old(&path, &vec![b'x'; bytes], 100 + number);
        }
    }
    place
}

/// Writes a file, so many seconds after 1970.
fn write_old(path: &Path, bytes: &[u8], seconds: u64) {
    fs::write(path, bytes).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(old).unwrap();
}

/// A vmcore of a kernel that crashed in `function`.
#[cfg(feature = "inspect")]
fn crash(function: &str) -> Vec<u8> {
    let machine = Synth::from_text("kernel 6.12\nram 0x0-0x9f 0x100-0xfff").unwrap();
    let mut spec = machine.spec().clone();
    let mut log = KernelLog::new(LogForm::Lockless);
    for line in [
        "BUG: kernel NULL pointer dereference, address: 0000000000000008",
        &format!("RIP: 0010:{function}+0x1/0x2"),
        "Call Trace:",
        " vfs_write+0x1/0x2",
        "Kernel panic - not syncing: Fatal exception",
    ] {
        log.records
            .push(LogRecord::new(81_000_000_000, line.as_bytes()));
    }
    spec.log = Some(log);
    Synth::from_spec(spec).unwrap().elf(&ElfShape::vmcore())
}

#[cfg(feature = "inspect")]
#[test]
fn first_dump_of_each_crash_stays_while_there_is_room() {
    let place = SaveLab::with_dump(&[]);
    let (one, other) = (crash("write_it"), crash("read_it"));
    let dumps: [&[u8]; 5] = [&one, &other, &one, &other[..5000], &other];
    for (number, dump) in (0..).zip(dumps) {
        let name = format!("vmcore.{number}");
        write_old(&place.file(&name), dump, 100 + number);
    }
    let outcome = place.save(&["--keep-dumps", "2"]).code(0);
    outcome.says(&[
        "vmcore.3: removed",
        "vmcore.2: removed",
        "vmcore.1: stays, the first",
        "vmcore.0: stays, the first",
    ]);
    let dumps = |place: &SaveLab| {
        let mut names = place.names();
        names.retain(|name| name.starts_with("vm"));
        names
    };
    let left = ["vmcore.0", "vmcore.1", "vmcore.4", "vmdump.5"];
    assert_eq!(dumps(&place), left);
    // The repeat goes first, then the older of the two firsts.
    let blocks = |name: &str| fs::metadata(place.file(name)).unwrap().blocks();
    let room = |name: &str| blocks(name) * 512;
    let most = (room("vmdump.5") + room("vmcore.1")).to_string();
    place.save(&["--max-size", &most]).code(0).says(&[
        "vmcore.4: removed",
        "vmcore.0: removed",
        "vmcore.1: stays, the first",
    ]);
    assert_eq!(dumps(&place), ["vmcore.1", "vmdump.5"]);
    place.save(&["--max-size", "1"]).code(0);
    assert_eq!(dumps(&place), ["vmdump.5"]);
}

#[test]
fn older_dumps_are_removed_after_the_new_one_is_saved() {
    let place = with_older_dumps();
    let outcome = place.save(&["--keep-dumps", "2"]).code(0);
    outcome.says(&["vmdump.0: removed", "vmdump.1: removed"]);
    for (name, stays) in [
        ("vmdump.0", false),
        ("vmdump.1", false),
        ("vmdump.2", true),
        ("vmdump.3", true),
        ("dmesg.0", true),
        ("info.0", true),
        ("dmesg.3", true),
    ] {
        assert_eq!(place.file(name).exists(), stays, "{name}");
    }
    assert!(!place.is_valid());
    // Also where there is nothing to save, since the limits may have changed.
    place
        .save(&["--max-size", "1K"])
        .code(0)
        .says(&["vmdump.2: removed", "more than the 1024"]);
    assert!(place.file("vmdump.3").exists() && !place.file("vmdump.2").exists());
}

#[test]
fn nothing_is_removed_if_the_dump_cannot_be_saved() {
    let place = with_older_dumps();
    fs::write(
        place.file("minfree"),
        u64::from(u32::MAX).to_string() + "0000",
    )
    .unwrap();
    place.save(&["--keep-dumps", "1"]).code(1);
    assert!(place.file("vmdump.0").exists());
    assert!(place.is_valid());
}

#[test]
fn zero_dumps_are_refused() {
    let place = SaveLab::with_dump(&[]);
    place.save(&["--keep-dumps", "0"]).code(2);
    assert!(place.is_valid());
}

#[test]
fn dump_that_cannot_be_removed_is_a_warning() {
    let place = SaveLab::with_dump(&[]);
    // A file that is mounted over cannot be removed.
    let old = place.file("vmdump.0");
    fs::write(&old, b"old").unwrap();
    let other = place.lab.file("other", b"other");
    let bound = std::process::Command::new("mount")
        .args(["--bind", arg(&other), arg(&old)])
        .status();
    if !bound.is_ok_and(|status| status.success()) {
        println!("skipped: cannot mount over a file");
        return;
    }
    let outcome = place.save(&["--keep-dumps", "1"]);
    assert!(
        std::process::Command::new("umount")
            .arg(&old)
            .status()
            .unwrap()
            .success()
    );
    outcome
        .code(0)
        .says(&["warning", "vmdump.0: cannot remove it"]);
    assert!(old.exists() && place.file("vmdump.1").exists());
    assert!(!place.is_valid());
}

#[test]
fn directory_that_cannot_be_listed_is_a_warning() {
    let place = with_older_dumps();
    place.save(&[]).code(0);
    fs::set_permissions(&place.directory, fs::Permissions::from_mode(0o300)).unwrap();
    let words = [
        "save",
        "--keep-dumps",
        "1",
        arg(&place.device),
        arg(&place.directory),
    ];
    // Root may list it nevertheless; either way the command does not fail.
    run(&words).code(0);
    fs::set_permissions(&place.directory, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(place.file("vmdump.3").exists());
}
