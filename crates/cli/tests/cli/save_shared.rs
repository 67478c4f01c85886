//! Saving into a directory that other users write to, such as a /var/crash of mode 1777.
//!
//! Files of another user need root. Without root, files of this user that others can open stand
//! for them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Stdio;

use bigiron_dump::{Saved, save_log};
use bigiron_helpers::Stop;
use rustix::fs::statvfs;

use crate::common::{Lab, Outcome, SmallDisk, arg, command, finish, make_pipe, run};
use crate::save::{SaveLab, complete_and_equal, lab};

/// The other user.
const OTHER_USER: u32 = 12345;

/// Makes a file as another user may have: of that user, or writable by all.
fn plant(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    if chown(path, Some(OTHER_USER), Some(OTHER_USER)).is_err() {
        println!("skipped: a file of another user, since only root can make one");
    }
}

/// Makes a pipe as another user may have; returns false if that needs root.
fn plant_pipe(path: &Path) -> bool {
    make_pipe(path);
    chown(path, Some(OTHER_USER), Some(OTHER_USER)).is_ok()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A device with a dump, and the directory with mode 1777.
fn shared() -> SaveLab {
    let place = SaveLab::with_dump(&[]);
    set_mode(&place.directory, 0o1777);
    place
}

/// Asserts that a file is private and not the planted one.
#[track_caller]
fn is_private(path: &Path) {
    let metadata = fs::symlink_metadata(path).unwrap();
    assert!(metadata.is_file());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_ne!(metadata.uid(), OTHER_USER);
}

/// Runs savecore -L of the core into `directory`.
#[track_caller]
fn save_live(lab: &Lab, directory: &Path) -> Outcome {
    run(&["savecore", "-Lf", arg(lab.vmcore()), arg(directory)])
}

#[test]
fn live_dump_is_not_written_into_a_planted_file() {
    let lab = lab();
    let directory = lab.path("saved");
    fs::create_dir(&directory).unwrap();
    set_mode(&directory, 0o1777);
    let planted = directory.join(format!("vmcore.{}.incomplete", "0".repeat(32)));
    plant(&planted, b"");
    save_live(&lab, &directory)
        .code(0)
        .says(&["warning", arg(&planted)]);
    assert_eq!(fs::metadata(&planted).unwrap().len(), 0);
    is_private(&directory.join("vmcore.0"));
    complete_and_equal(&directory.join("vmcore.0"), lab.vmcore());
}

#[test]
fn saved_dump_is_not_written_into_a_planted_file() {
    for kind in ["file", "hard link", "pipe", "link"] {
        let place = shared();
        let id = place.found().unwrap().header.id;
        let planted = place.file(&format!("vmdump.{id}.incomplete"));
        let precious = place.file("precious");
        plant(&precious, b"precious");
        match kind {
            "file" => fs::rename(&precious, &planted).unwrap(),
            "hard link" => fs::hard_link(&precious, &planted).unwrap(),
            "pipe" => make_pipe(&planted),
            _ => symlink(&precious, &planted).unwrap(),
        }
        let outcome = place.save(&[]).code(0);
        outcome.says(&["warning", arg(&planted)]);
        assert!(!place.is_valid(), "{kind}");
        is_private(&place.file("vmdump.0"));
        assert_eq!(
            fs::read(place.file("vmdump.0")).unwrap(),
            place.contents(),
            "{kind}"
        );
        match kind {
            "file" => assert_eq!(fs::read(&planted).unwrap(), b"precious"),
            "pipe" => assert!(fs::symlink_metadata(&planted).is_ok()),
            _ => assert_eq!(fs::read(&precious).unwrap(), b"precious", "{kind}"),
        }
    }
}

#[test]
fn pipes_in_the_place_of_records_are_ignored() {
    let place = shared();
    for name in ["info.0", "info.1", "minfree"] {
        make_pipe(&place.file(name));
    }
    let told = place.save(&[]).code(0).stderr;
    for part in ["info.0: is not a regular file", "1 more", "minfree: "] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(place.file("vmdump.2").exists());
    assert!(!place.is_valid());
}

#[test]
fn planted_numbers_do_not_prevent_saving() {
    for (planted, number) in [
        ("vmdump.18446744073709551615", 0),
        ("info.4294967296", 0),
        ("vmcore.4294967295", 0),
        ("vmdump.4294967294", u64::from(u32::MAX)),
    ] {
        let place = shared();
        plant(&place.file(planted), b"");
        assert_eq!(place.saved(&["--keep"])["number"], number, "{planted}");
        assert!(place.file(&format!("vmdump.{number}")).exists());
        // It is found again.
        assert_eq!(place.saved(&[])["before"], true, "{planted}");
        place.dump(&[]).code(0);
        let number = place.saved(&[])["number"].as_u64().unwrap();
        is_private(&place.file(&format!("vmdump.{number}")));
    }
}

#[test]
fn minfree_of_another_user_is_ignored() {
    let place = shared();
    plant(&place.file("minfree"), b"99999999999999\n");
    place.save(&[]).code(0).says(&["warning", "minfree"]);
    assert!(!place.is_valid());
    // That of this user is not.
    let place = shared();
    fs::write(place.file("minfree"), b"99999999999999\n").unwrap();
    place.save(&[]).code(1).says(&["must stay free"]);
}

#[test]
fn forged_record_does_not_make_a_dump_count_as_saved() {
    let place = shared();
    let id = place.found().unwrap().header.id;
    let forged = vec![b'x'; place.contents().len()];
    let record = format!("dump: {id}\nfile: vmdump.0\nbytes: {}\n", forged.len());
    plant(&place.file("info.0"), record.as_bytes());
    plant(&place.file("vmdump.0"), &forged);
    let saved = place.saved(&[]);
    assert_eq!(
        (&saved["before"], &saved["number"]),
        (&false.into(), &1.into())
    );
    assert!(fs::read(place.file("vmdump.1")).unwrap() == place.contents());
}

#[test]
fn file_in_the_place_of_a_reserved_number_does_not_prevent_saving() {
    let place = shared();
    place.save(&["--keep"]).code(0);
    // The record of a killed run remains, and another user takes the dump's name.
    fs::remove_file(place.file("vmdump.0")).unwrap();
    plant(&place.file("vmdump.0"), b"");
    assert_eq!(place.saved(&[])["number"], 1);
    assert!(fs::read(place.file("vmdump.1")).unwrap() == place.contents());
    // An expanded dump gets another number than its source.
    let dump = place.file("vmdump.1");
    plant(&place.file("vmcore.1"), b"");
    for _ in 0..2 {
        run(&["save", "-f", arg(&dump), arg(&place.directory)]).code(0);
        complete_and_equal(&place.file("vmcore.2"), place.lab.vmcore());
    }
    assert_eq!(fs::read(place.file("vmcore.1")).unwrap(), b"");
    assert!(!place.file("vmcore.3").exists());
}

#[test]
fn planted_log_is_reported_and_the_dump_is_saved() {
    let place = shared();
    place.save(&["--keep"]).code(0);
    fs::remove_file(place.file("dmesg.0")).unwrap();
    plant(&place.file("dmesg.0"), b"");
    plant(&place.file("dmesg.0.incomplete"), b"");
    place
        .save(&["--keep"])
        .code(0)
        .says(&["warning", "dmesg.0: cannot replace it"]);
    assert_eq!(fs::read(place.file("dmesg.0")).unwrap(), b"");
    // Only its temporary name is taken.
    fs::remove_file(place.file("dmesg.0")).unwrap();
    place.save(&[]).code(0);
    let log = run(&["dmesg", arg(&place.device)]).code(0).stdout;
    assert_eq!(fs::read(place.file("dmesg.0")).unwrap(), log);
    assert!(!place.is_valid());
}

#[test]
fn directory_in_which_others_replace_files_is_reported() {
    let place = shared();
    set_mode(&place.directory, 0o777);
    place.save(&[]).code(0).says(&["warning", "no sticky bit"]);
    let output = place.file("dump");
    run(&["dump", "-q", arg(place.lab.vmcore()), arg(&output)])
        .code(0)
        .says(&["warning", "no sticky bit"]);
    set_mode(&place.directory, 0o1777);
    let output = place.file("other");
    let told = run(&["dump", "-q", arg(place.lab.vmcore()), arg(&output)]).code(0);
    assert_eq!(told.stderr, "");
}

#[test]
fn dump_is_not_written_into_planted_files() {
    let place = shared();
    let (vmcore, output) = (place.lab.vmcore(), place.file("out"));
    plant(&place.file("out.incomplete"), b"");
    run(&["dump", arg(vmcore), arg(&output)]).code(0);
    is_private(&output);
    assert_eq!(fs::read(place.file("out.incomplete")).unwrap(), b"");
    let pipe = place.file("pipe");
    if !plant_pipe(&pipe) {
        println!("skipped: a pipe of another user, since only root can make one");
        return;
    }
    run(&["dump", arg(vmcore), arg(&pipe)])
        .code(1)
        .says(&["pipe", "user 12345"]);
}

#[test]
fn log_is_truncated_where_free_space_ends() {
    let place = SaveLab::with_dump(&[]);
    let at = place.lab.path("disk");
    let Some(_disk) = SmallDisk::mount(&at, 64) else {
        println!("skipped: a small disk, since mounting is not permitted");
        return;
    };
    run(&["save", arg(&place.device), arg(&at)]).code(0);
    let saved = Saved {
        id: place.found().unwrap().header.id,
        number: 0,
        path: at.join("vmdump.0"),
        before: true,
        bytes: 0,
        copied: 0,
        damage: None,
        unreadable: None,
        encrypted: false,
        warnings: Vec::new(),
    };
    let path = at.join("dmesg.0");
    fs::remove_file(&path).unwrap();
    fs::write(at.join("minfree"), b"0").unwrap();
    // 1 MiB is free beyond what must stay free, and the log has 8.
    let space = statvfs(&at).unwrap();
    let free = space.f_bavail * space.f_frsize;
    fs::write(at.join("minfree"), (free / 1024 - 1024).to_string()).unwrap();
    let line = [b'x'; 1 << 16];
    let log = save_log(
        &saved,
        &Stop::new(),
        |out| -> Result<(), bigiron_dump::DumpError> {
            for _ in 0..128 {
                if out.write_all(&line).is_err() {
                    break;
                }
            }
            Ok(())
        },
    );
    let log = log.unwrap();
    assert_eq!(log.path.as_ref(), Some(&path));
    assert!(log.truncated.unwrap().contains("log truncated after"));
    let len = fs::metadata(&path).unwrap().len();
    assert!((1 << 19..=1 << 20).contains(&len), "{len}");
}

#[test]
fn log_without_space_is_reported_and_the_dump_is_saved() {
    let place = SaveLab::with_dump(&[]);
    place.save(&["--keep", "--no-log"]).code(0);
    fs::write(place.file("minfree"), u64::MAX.to_string()).unwrap();
    place
        .save(&[])
        .code(0)
        .says(&["warning", "vmdump.0", "log truncated after 0 bytes"]);
    assert_eq!(place.names(), ["info.0", "minfree", "vmdump.0"]);
    assert!(!place.is_valid());
}

#[test]
fn report_that_cannot_be_printed_is_no_failure() {
    let place = SaveLab::with_dump(&[]);
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let output = place.lab.path("out");
    let vmcore = arg(place.lab.vmcore());
    for json in [&[][..], &["--json"]] {
        let mut arguments = vec!["dump", "--overwrite", vmcore, arg(&output)];
        arguments.extend(json);
        let child = command(&arguments).stdout(full()).spawn().unwrap();
        finish(child).code(0).says(&["report cannot be printed"]);
        complete_and_equal(&output, place.lab.vmcore());
        let mut arguments = vec!["save", "--keep", "--again"];
        arguments.extend(json);
        arguments.extend([arg(&place.device), arg(&place.directory)]);
        let child = command(&arguments).stdout(full()).spawn().unwrap();
        finish(child).code(0).says(&["report cannot be printed"]);
    }
    assert!(place.file("vmdump.1").exists());
    // Where the output is the result, it is one.
    if cfg!(feature = "inspect") {
        let child = command(&["info", vmcore]).stdout(full()).spawn().unwrap();
        finish(child).code(1).says(&["No space left"]);
    }
    // Standard error for the report of a dump to standard output.
    let mut child = command(&["dump", vmcore, "-"]);
    let status = child.stdout(Stdio::null()).stderr(full()).status();
    assert_eq!(status.unwrap().code(), Some(0));
}
