//! `bigiron save --keep-dumps` and `--max-size`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{arg, run};
use crate::save::SaveLab;

/// A directory with dumps 0 to 2 that are older than the next one, and their logs.
fn with_older_dumps() -> SaveLab {
    let place = SaveLab::with_dump(&[]);
    for number in 0..3 {
        for (stem, bytes) in [("vmdump", 256 << 10), ("dmesg", 1000), ("info", 100)] {
            let path = place.file(&format!("{stem}.{number}"));
            fs::write(&path, vec![b'x'; bytes]).unwrap();
            let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(100 + number);
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(old).unwrap();
        }
    }
    place
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
