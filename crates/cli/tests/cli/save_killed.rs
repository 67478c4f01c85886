//! Saving that is killed at any moment, and two that save at once.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{arg, command, finish, run, wait_while_running};
use crate::save::{Place, lab, whole_and_right};

/// What must hold at any moment: what has a final name is whole, and the mark is
/// there as long as nothing is.
#[track_caller]
fn holds(place: &Place, contents: &[u8], at: &str) {
    let mut copies = 0;
    for name in place.names() {
        if name.ends_with(".incomplete") {
            continue;
        }
        let bytes = fs::read(place.file(&name)).unwrap();
        if name.starts_with("vmdump.") {
            assert!(bytes == contents, "{at}: {name} is not whole");
            copies += 1;
        } else if name.starts_with("info.") {
            assert!(bytes.ends_with(b"\n"), "{at}: {name}");
        }
    }
    assert!(copies <= 1, "{at}: {:?}", place.names());
    assert!(
        place.is_valid() || copies == 1,
        "{at}: the mark is gone and no copy is there"
    );
}

/// After the next run there is one copy, and nothing else to be done.
#[track_caller]
fn comes_right(place: &Place, contents: &[u8], at: &str) {
    place.save(&["--quiet"]).code(0);
    holds(place, contents, at);
    assert!(!place.is_valid(), "{at}");
    assert_eq!(place.names(), ["dmesg.0", "info.0", "vmdump.0"], "{at}");
}

/// As before the first run.
fn set_back(place: &Place, device: &[u8]) {
    fs::write(&place.device, device).unwrap();
    place.empty_directory();
}

#[test]
fn a_run_that_is_killed_at_any_time_is_made_good_by_the_next() {
    let place = Place::with_dump(&["-d", "0", "-c", "none"]);
    let (device, contents) = (fs::read(&place.device).unwrap(), place.contents());
    // Of the 24 runs the first is killed at once, the others when a further part of the copy is written.
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
        // Every third is killed once more before it may end.
        if round % 3 == 0 {
            continue;
        }
        comes_right(&place, &contents, &at);
        set_back(&place, &device);
    }
}

#[test]
fn a_run_that_is_killed_at_any_call_to_the_system_is_made_good_by_the_next() {
    if !Command::new("strace")
        .arg("-V")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        println!("skipped: kills at each call to the system, since strace is not installed");
        return;
    }
    let place = Place::with_dump(&[]);
    let (device, contents) = (fs::read(&place.device).unwrap(), place.contents());
    let calls = "openat,ftruncate,pwrite64,write,fsync,fdatasync,renameat2,unlink,mkdir";
    for call in calls.split(',') {
        // What is in the middle of many is like its neighbours.
        for when in (1..8).chain((8..).step_by(5)) {
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
            comes_right(&place, &contents, &at);
            set_back(&place, &device);
            assert!(when < 200, "{at}");
        }
        set_back(&place, &device);
    }
}

#[test]
fn two_that_save_one_device_at_once_make_one_copy() {
    let place = Place::with_dump(&["-d", "0", "-c", "none"]);
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
fn many_that_save_one_file_at_once_make_one_copy() {
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
fn many_dumps_saved_at_once_get_numbers_of_their_own() {
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
fn a_dump_whose_writer_was_killed_is_saved_as_far_as_it_came() {
    let place = Place::with_dump(&[]);
    let vmcore = place.lab.vmcore();
    let mut kept = 0;
    // At this limit a dump takes 8 s at least; the delays grow until some dumps are killed half way.
    let mut delays = [0, 20, 40, 80, 160, 320, 640, 1280, 2560]
        .into_iter()
        .cycle();
    for round in 0.. {
        assert!(round < 100, "no killed dump was saved");
        if round >= 6 && kept > 0 {
            break;
        }
        let wait = delays.next().unwrap();
        // An older dump is on the device, and must not be taken for this one.
        let id = place.found().unwrap().header.id;
        let limit = ["--write-limit", "4M", "-d", "0", "-c", "none", "-q"];
        let mut arguments = vec!["dump", "--device"];
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
        // Pages are right or lost, also where the copy has no log to give.
        let verified = run(&["verify", arg(&copy), "--against", arg(vmcore)]).code(1);
        assert!(
            verified.stderr.contains("incomplete but usable"),
            "{}",
            verified.stderr
        );
        place.dump(&["-d", "0", "-c", "none"]).code(0);
    }
    let left = place.lab.dump("plain", &["-d", "0"]);
    whole_and_right(&left, vmcore);
}
