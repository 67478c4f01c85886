//! `bigiron save` killed at any moment, and run concurrently.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{arg, command, finish, run, wait_while_running};
use crate::save::{SaveLab, complete_and_equal, lab};

/// Asserts the invariants of every moment: a file with a final name is complete, and the mark
/// is set while there is no copy.
#[track_caller]
fn holds(place: &SaveLab, contents: &[u8], at: &str) {
    let mut copies = 0;
    for name in place.names() {
        if name.ends_with(".incomplete") {
            continue;
        }
        let bytes = fs::read(place.file(&name)).unwrap();
        if name.starts_with("vmdump.") {
            assert!(bytes == contents, "{at}: {name} is not complete");
            copies += 1;
        } else if name.starts_with("info.") {
            assert!(bytes.ends_with(b"\n"), "{at}: {name}");
        }
    }
    assert!(copies <= 1, "{at}: {:?}", place.names());
    assert!(
        place.is_valid() || copies == 1,
        "{at}: the mark is cleared and there is no copy"
    );
}

/// Asserts that the next run makes one copy and clears the mark.
#[track_caller]
fn next_run_completes(place: &SaveLab, contents: &[u8], at: &str) {
    place.save(&["--quiet"]).code(0);
    holds(place, contents, at);
    assert!(!place.is_valid(), "{at}");
    assert_eq!(place.names(), ["dmesg.0", "info.0", "vmdump.0"], "{at}");
}

/// Restores the device and the empty directory.
fn reset(place: &SaveLab, device: &[u8]) {
    fs::write(&place.device, device).unwrap();
    place.empty_directory();
}

#[test]
fn next_run_completes_a_run_killed_while_copying() {
    let place = SaveLab::with_dump(&["-d", "0", "-c", "none"]);
    let (device, contents) = (fs::read(&place.device).unwrap(), place.contents());
    // The first of 24 runs is killed at once, each other when a further 24th of the copy is written.
    let copied = || -> u64 {
        let sizes = place
            .names()
            .into_iter()
            .map(|name| fs::metadata(place.file(&name)).map_or(0, |file| file.len()));
        sizes.sum()
    };
    for round in 0..24 {
        let arguments = ["save", "-q", arg(&place.device), arg(&place.directory)];
        let mut child = command(&arguments).spawn().unwrap();
        let part = contents.len() as u64 * round / 24;
        wait_while_running(&mut child, || copied() >= part);
        let _ = child.kill();
        child.wait().unwrap();
        let at = format!("killed after {part} bytes");
        holds(&place, &contents, &at);
        // Every third run is followed by another killed one.
        if round % 3 == 0 {
            continue;
        }
        next_run_completes(&place, &contents, &at);
        reset(&place, &device);
    }
}

#[test]
fn next_run_completes_a_run_killed_at_any_system_call() {
    if !Command::new("strace")
        .arg("-V")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        println!("skipped: kills at each system call, since strace is not installed");
        return;
    }
    let place = SaveLab::with_dump(&[]);
    let (device, contents) = (fs::read(&place.device).unwrap(), place.contents());
    let calls = "openat,ftruncate,pwrite64,write,fsync,fdatasync,renameat2,unlinkat,mkdir";
    for call in calls.split(',') {
        // Of many calls of a kind, every ninth is enough.
        for when in (1..8).chain((8..).step_by(9)) {
            let inject = format!("inject={call}:signal=KILL:when={when}");
            let trace = format!("trace={call}");
            let status = Command::new("strace")
                .args(["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject])
                .args([env!("CARGO_BIN_EXE_bigiron"), "save", "-q", "-j", "1"])
                .args([arg(&place.device), arg(&place.directory)])
                .stdout(Stdio::null())
                .status()
                .unwrap();
            let at = format!("killed at {call} {when}");
            holds(&place, &contents, &at);
            if status.success() {
                break;
            }
            next_run_completes(&place, &contents, &at);
            reset(&place, &device);
            assert!(when < 200, "{at}");
        }
        reset(&place, &device);
    }
}

#[test]
fn concurrent_saves_of_one_device_make_one_copy() {
    let place = SaveLab::with_dump(&["-d", "0", "-c", "none"]);
    let contents = place.contents();
    let arguments = ["save", "--json", arg(&place.device), arg(&place.directory)];
    let children: Vec<_> = (0..4)
        .map(|_| command(&arguments).spawn().unwrap())
        .collect();
    let mut found = 0;
    for child in children {
        found += u32::from(finish(child).code(0).text().contains("\"found\": true"));
    }
    assert_eq!(found, 1);
    holds(&place, &contents, "at once");
    assert_eq!(place.names(), ["dmesg.0", "info.0", "vmdump.0"]);
}

#[test]
fn concurrent_saves_of_one_file_make_one_copy() {
    let lab = lab();
    let (dump, directory) = (
        lab.dump("dump", &["-d", "0", "-c", "none"]),
        lab.path("saved/"),
    );
    let arguments = ["save", "-q", arg(&dump), arg(&directory)];
    let children: Vec<_> = (0..4)
        .map(|_| command(&arguments).spawn().unwrap())
        .collect();
    for child in children {
        finish(child).code(0);
    }
    assert!(fs::read(directory.join("vmdump.0")).unwrap() == fs::read(&dump).unwrap());
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 3);
}

#[test]
fn dumps_saved_concurrently_get_different_numbers() {
    let lab = lab();
    let directory = lab.path("saved/");
    let codecs = ["none", "zlib", "lzo", "snappy", "zstd"];
    let dumps: Vec<_> = codecs
        .iter()
        .map(|codec| lab.dump(codec, &["-c", codec]))
        .collect();
    let children: Vec<_> = dumps
        .iter()
        .map(|dump| {
            command(&["save", "-q", arg(dump), arg(&directory)])
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        finish(child).code(0);
    }
    let mut saved: Vec<_> = (0..5)
        .map(|number| fs::read(directory.join(format!("vmdump.{number}"))).unwrap())
        .collect();
    let mut wanted: Vec<_> = dumps.iter().map(|dump| fs::read(dump).unwrap()).collect();
    saved.sort();
    wanted.sort();
    assert!(saved == wanted);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 15);
}

#[test]
fn dump_whose_writer_was_killed_is_saved_as_incomplete() {
    let place = SaveLab::with_dump(&[]);
    let vmcore = place.lab.vmcore();
    let mut kept = 0;
    // At this limit a dump takes at least 8 s; the delays grow until a killed dump has something to save.
    let mut delays = [0, 20, 40, 80, 160, 320, 640, 1280, 2560]
        .into_iter()
        .cycle();
    for round in 0.. {
        assert!(round < 100, "no killed dump was saved");
        if round >= 6 && kept > 0 {
            break;
        }
        let wait = delays.next().unwrap();
        // The older dump on the device must not be taken for this one.
        let id = place.found().unwrap().header.id;
        let limit = ["--write-limit", "4M", "-d", "0", "-c", "none", "-q"];
        let mut arguments = vec!["dump", "--device", "--keep", "newest"];
        arguments.extend(limit);
        arguments.extend([arg(vmcore), arg(&place.device)]);
        let mut child = command(&arguments).spawn().unwrap();
        thread::sleep(Duration::from_millis(wait));
        let _ = child.kill();
        child.wait().unwrap();
        place.empty_directory();
        let header = place.found().unwrap().header;
        if header.id == id || !header.valid {
            continue;
        }
        let saved = place.saved(&[]);
        assert!(!place.is_valid());
        if saved["found"] == false {
            continue;
        }
        kept += 1;
        let copy = place.file("vmdump.0");
        assert_eq!(saved["complete"], false, "{wait}");
        assert!(fs::metadata(&copy).unwrap().len() < 40 << 20);
        // Every page is equal or lost, even if the copy has no log.
        let verified = run(&["verify", arg(&copy), "--against", arg(vmcore)]).code(1);
        assert!(
            verified.stderr.contains("incomplete but usable"),
            "{}",
            verified.stderr
        );
        place.dump(&["-d", "0", "-c", "none"]).code(0);
    }
    let left = place.lab.dump("plain", &["-d", "0"]);
    complete_and_equal(&left, vmcore);
}
