//! Saving files: names, numbers, holes, parts, expansion, free space, permissions.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use bigiron_kernel::Source;
use serde_json::Value;

use crate::common::{SmallDisk, arg, command, finish, incomplete_but_equal, present, run, shell};
use crate::save::{SaveLab, complete_and_equal, lab};

#[test]
fn saved_dumps_are_numbered_private_and_never_replaced() {
    let place = SaveLab::with_dump(&[]);
    fs::write(place.file("vmcore.7"), b"precious").unwrap();
    fs::write(place.file("vmdump.007"), b"no number").unwrap();
    fs::write(place.file("minfree"), b"0\n").unwrap();
    let arguments = ["save", arg(&place.device), arg(&place.directory)];
    let outcome = finish(shell("umask 000;", &arguments).spawn().unwrap()).code(0);
    assert!(outcome.text().contains("marked as saved"));
    for name in ["vmdump.8", "info.8", "dmesg.8"] {
        let mode = fs::metadata(place.file(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::read(place.file("vmcore.7")).unwrap(), b"precious");
    let log = run(&["dmesg", arg(&place.device)]).code(0).stdout;
    assert_eq!(fs::read(place.file("dmesg.8")).unwrap(), log);
    let info = fs::read_to_string(place.file("info.8")).unwrap();
    for part in ["file: vmdump.8\n", "kernel: 6.12.0-synth\n", "dump: "] {
        assert!(info.contains(part), "{info}");
    }
    assert!(!info.contains("incomplete"));
    // Nothing is left to save, but the user may save the dump again.
    assert!(place.save(&[]).code(0).text().contains("no unsaved dump"));
    place.save(&["--again"]).code(0);
    assert!(place.file("vmdump.9").exists());
    place.dump(&[]).code(0);
    place.save(&["--keep", "--no-log"]).code(0);
    assert!(place.is_valid());
    assert!(!place.file("dmesg.10").exists());
    assert_eq!(place.saved(&[])["before"], true);
    assert!(!place.is_valid());
}

#[test]
fn truncated_copy_does_not_count_as_saved() {
    let place = SaveLab::with_dump(&[]);
    place.save(&["--keep"]).code(0);
    let copy = fs::File::options()
        .write(true)
        .open(place.file("vmdump.0"))
        .unwrap();
    copy.set_len(4096).unwrap();
    place.save(&[]).code(1).says(&["vmdump.0", "exists"]);
    assert!(place.is_valid());
    fs::remove_file(place.file("vmdump.0")).unwrap();
    assert_eq!(place.saved(&[])["number"], 0);
    assert_eq!(fs::read(place.file("vmdump.0")).unwrap(), place.contents());
}

#[test]
fn file_is_saved_once_with_its_holes() {
    let lab = lab();
    let directory = lab.path("saved/");
    let sparse = lab.dump("core", &["-f", "elf", "-d", "1"]);
    let dump = lab.dump("dump", &[]);
    for (source, name) in [(&sparse, "vmcore.0"), (&dump, "vmdump.1")] {
        run(&["save", arg(source), arg(&directory)]).code(0);
        let copy = directory.join(name);
        assert!(fs::read(&copy).unwrap() == fs::read(source).unwrap());
        let blocks = |path: &Path| fs::metadata(path).unwrap().blocks();
        assert!(
            blocks(&copy) <= blocks(source) + 64,
            "{name}: {} {}",
            blocks(&copy),
            blocks(source)
        );
        let again = run(&["save", "--json", arg(source), arg(&directory)]).code(0);
        let again: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(
            (&again["before"], &again["mark_cleared"]),
            (&true.into(), &false.into())
        );
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 6);
}

#[test]
fn expanding_writes_a_core_of_the_same_pages_with_the_same_number() {
    let place = SaveLab::with_dump(&["-d", "31"]);
    place.save(&[]).code(0);
    let (dump, core) = (place.file("vmdump.0"), place.file("vmcore.0"));
    let expand = || run(&["save", "-f", arg(&dump), arg(&place.directory)]).code(0);
    expand();
    assert_eq!(
        Source::open(std::slice::from_ref(&core)).unwrap().kind(),
        "ELF core"
    );
    complete_and_equal(&core, &dump);
    assert!(
        present(&core)
            .iter()
            .zip(present(&dump))
            .all(|(core, dump)| *core || !dump)
    );
    assert_eq!(
        fs::metadata(&core).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let before = fs::metadata(&core).unwrap();
    assert!(expand().text().contains("already saved"));
    assert_eq!(fs::metadata(&core).unwrap().ino(), before.ino());
    // Directly from the device, whose mark is then cleared.
    place.dump(&[]).code(0);
    let saved = place.saved(&["-f"]);
    assert_eq!(saved["file"], arg(&place.file("vmcore.1")));
    assert_eq!(saved["mark_cleared"], true);
    complete_and_equal(&place.file("vmcore.1"), place.lab.vmcore());
    assert!(
        place
            .names()
            .iter()
            .all(|name| !name.ends_with("incomplete"))
    );
}

#[test]
fn parts_of_a_split_dump_are_saved_as_one_dump_of_the_same_pages() {
    let lab = lab();
    let parts: Vec<_> = (1..=3).map(|n| lab.path(&format!("part{n}"))).collect();
    let names: Vec<_> = parts.iter().map(|part| arg(part)).collect();
    let mut arguments = vec![
        "makedumpfile",
        "--split",
        "-d",
        "31",
        "-c",
        arg(lab.vmcore()),
    ];
    arguments.extend(&names);
    run(&arguments).code(0);
    let directory = lab.path("saved");
    fs::create_dir(&directory).unwrap();
    let plain = lab.dump("plain", &["-d", "31"]);
    let save = |names: &[&str]| {
        let mut arguments = vec!["save", "--json"];
        arguments.extend(names);
        arguments.push(arg(&directory));
        let saved = run(&arguments).code(0);
        serde_json::from_slice::<Value>(&saved.stdout).unwrap()
    };
    let saved = save(&[names[2], names[0], names[1]]);
    assert_eq!(saved["complete"], true, "{saved}");
    let whole = directory.join("vmdump.0");
    complete_and_equal(&whole, lab.vmcore());
    complete_and_equal(&plain, &whole);
    assert_eq!(present(&whole), present(&plain));
    // The order of the parts does not matter.
    assert_eq!(save(&names)["before"], true);
    // Without one part the others are saved, with a warning.
    let saved = save(&[names[0], names[2]]);
    assert_eq!(saved["complete"], false);
    incomplete_but_equal(&directory.join("vmdump.1"), lab.vmcore());
    // Parts truncated in the data and in the descriptors.
    let bytes = fs::read(&parts[1]).unwrap();
    for (keep, number) in [(bytes.len() - bytes.len() / 8, 2), (24 << 10, 3)] {
        fs::write(&parts[1], &bytes[..keep]).unwrap();
        let saved = save(&names);
        assert_eq!(saved["complete"], false, "{keep}");
        incomplete_but_equal(&directory.join(format!("vmdump.{number}")), lab.vmcore());
    }
}

#[test]
fn makedumpfile_reads_saved_dumps() {
    if !Command::new("makedumpfile")
        .arg("-v")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        println!("skipped: makedumpfile is not installed");
        return;
    }
    let lab = lab();
    let parts: Vec<_> = (1..=2).map(|n| lab.path(&format!("part{n}"))).collect();
    let mut arguments = vec![
        "makedumpfile",
        "--split",
        "-d",
        "31",
        "-c",
        arg(lab.vmcore()),
    ];
    arguments.extend(parts.iter().map(|part| arg(part)));
    run(&arguments).code(0);
    let directory = lab.path("saved/");
    run(&["save", arg(&parts[0]), arg(&parts[1]), arg(&directory)]).code(0);
    run(&[
        "save",
        "-f",
        arg(&directory.join("vmdump.0")),
        arg(&directory),
    ])
    .code(0);
    let log = fs::read_to_string(directory.join("dmesg.0")).unwrap();
    for name in ["vmdump.0", "vmcore.0"] {
        let text = lab.path(&format!("{name}.log"));
        let mut program = Command::new("makedumpfile");
        let made = program
            .arg("--dump-dmesg")
            .arg(directory.join(name))
            .arg(&text)
            .output()
            .unwrap();
        assert!(made.status.success(), "{name}: {made:?}");
        // makedumpfile treats bytes above 127 as negative numbers.
        let text = fs::read_to_string(&text)
            .unwrap()
            .replace("\\xffffff", "\\x")
            .replace('\r', "\\x0d");
        assert!(text == log, "{name}");
    }
}

#[test]
fn insufficient_space_is_detected_first_and_the_device_is_unchanged() {
    let place = SaveLab::with_dump(&["-d", "0", "-c", "none"]);
    let at = place.lab.path("disk");
    let Some(_disk) = SmallDisk::mount(&at, 8) else {
        println!("skipped: a full disk, since mounting is not permitted");
        return;
    };
    let before = fs::read(&place.device).unwrap();
    let save = |options: &[&str]| {
        let mut arguments = vec!["save"];
        arguments.extend(options);
        arguments.extend([arg(&place.device), arg(&at)]);
        run(&arguments)
    };
    save(&[])
        .code(1)
        .says(&["disk", "bytes are missing", "nothing was changed"]);
    save(&["-f"]).code(1).says(&["bytes are missing"]);
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
    assert!(fs::read(&place.device).unwrap() == before);
    // minfree is the number of KiB that stay free after the dump is saved.
    place.dump(&["--keep", "newest"]).code(0);
    fs::write(at.join("minfree"), b"8192\n").unwrap();
    save(&[]).code(1).says(&["must stay free"]);
    fs::write(at.join("minfree"), b"10\n").unwrap();
    save(&[]).code(0);
    assert!(!place.is_valid());
}

#[test]
fn disk_that_fills_up_during_saving_leaves_no_file_and_the_device_unchanged() {
    let place = SaveLab::with_dump(&["-d", "0", "-c", "none"]);
    let before = fs::read(&place.device).unwrap();
    for limit in ["1", "2000", "20000"] {
        for options in [&[][..], &["-f"]] {
            let mut arguments = vec!["save"];
            arguments.extend(options);
            arguments.extend([arg(&place.device), arg(&place.directory)]);
            let child = shell(&format!("ulimit -f {limit};"), &arguments).spawn();
            finish(child.unwrap()).code(1).says(&["File too large"]);
            assert_eq!(place.names(), [""; 0], "{limit} {options:?}");
            assert!(fs::read(&place.device).unwrap() == before);
        }
    }
}

#[test]
fn sources_that_cannot_be_saved_are_rejected_before_any_file_is_created() {
    let place = SaveLab::with_dump(&[]);
    let lab = &place.lab;
    let (garbage, empty) = (lab.file("garbage", b"no dump"), lab.file("empty", b""));
    let directory = arg(&place.directory);
    for source in [&garbage, &empty, &lab.path("nowhere")] {
        let name = source.file_name().unwrap().to_str().unwrap();
        run(&["save", arg(source), directory]).code(1).says(&[name]);
    }
    // Two dumps that do not belong together.
    let dump = lab.dump("dump", &[]);
    run(&["save", arg(&dump), arg(lab.vmcore()), directory]).code(1);
    run(&["save", "-", directory]).code(1);
    assert_eq!(place.names(), [""; 0]);
    run(&["save", arg(&dump), arg(&lab.path("no/such/"))])
        .code(1)
        .says(&["no/such"]);
    let below_a_file = format!("{}/", arg(&garbage));
    run(&["save", arg(&dump), &below_a_file])
        .code(1)
        .says(&["garbage"]);
    run(&["save"]).code(2);
}

#[test]
fn symbolic_links_in_the_directory_are_not_followed() {
    let place = SaveLab::with_dump(&[]);
    let precious = place.lab.file("precious", b"precious");
    let id = place.found().unwrap().header.id;
    symlink(&precious, place.file(&format!("vmdump.{id}.incomplete"))).unwrap();
    symlink(&precious, place.file("vmdump.0")).unwrap();
    let outcome = place
        .save(&[])
        .code(0)
        .says(&["incomplete: is not a regular file"]);
    assert!(outcome.text().contains("vmdump.1"));
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn without_permission_nothing_is_changed() {
    let place = SaveLab::with_dump(&[]);
    fs::set_permissions(&place.directory, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(place.file("probe"), b"").is_ok() {
        println!("skipped: a read-only directory, since root can write to it");
        fs::remove_file(place.file("probe")).unwrap();
        return;
    }
    place.save(&[]).code(1).says(&["saved"]);
    assert!(place.is_valid());
    fs::set_permissions(&place.directory, fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(&place.device, fs::Permissions::from_mode(0o400)).unwrap();
    place.save(&[]).code(1).says(&["device", "open it"]);
    place.save(&["--keep"]).code(0);
}

#[test]
fn savecore_alias_accepts_savecores_options() {
    let place = SaveLab::with_dump(&[]);
    let link = place.lab.path("savecore");
    symlink(env!("CARGO_BIN_EXE_bigiron"), &link).unwrap();
    let savecore = |arguments: &[&str]| {
        let output = Command::new(&link).args(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (device, directory) = (arg(&place.device), arg(&place.directory));
    let (code, _, told) = savecore(&["-z"]);
    assert_eq!(code, Some(2));
    assert!(told.contains("usage: savecore"), "{told}");
    // From a file named with -f it writes an uncompressed dump.
    assert_eq!(
        savecore(&["-rf", device, directory]),
        (Some(0), String::new(), String::new())
    );
    assert!(place.is_valid());
    let (code, _, told) = savecore(&["-vf", device, directory]);
    assert_eq!(code, Some(0));
    assert!(told.contains("vmcore.0"), "{told}");
    assert!(!place.is_valid());
    assert_eq!(place.names(), ["dmesg.0", "info.0", "vmcore.0"]);
    let (_, _, told) = savecore(&["-v", "-f", device, directory]);
    assert!(told.contains("already processed"), "{told}");
    assert_eq!(savecore(&["-d", "-f", device, directory]).0, Some(0));
    assert!(place.file("vmcore.1").exists());
    let arguments = ["savecore", "-v", "-f", device, directory];
    finish(command(&arguments).spawn().unwrap())
        .code(0)
        .says(&["already processed"]);
}
