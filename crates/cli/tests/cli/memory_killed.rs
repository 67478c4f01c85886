//! `bigiron mem` that is interrupted or killed at any moment: what it leaves.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::Duration;

use crate::segments;
use crate::segments::{MIB, eventually, files, mem, name, processes_with, run, segment};

fn start(arguments: &[&str]) -> Child {
    mem(arguments).spawn().unwrap()
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: a signal to this test's own child, which nobody has waited for.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
}

#[test]
fn ctrl_c_leaves_nothing() {
    let name = name("interrupted");
    for milliseconds in [30, 100, 250] {
        let mut child = start(&["create", "-q", "--size", "3G", "--huge", "never", &name]);
        thread::sleep(Duration::from_millis(milliseconds));
        signal(&child, libc::SIGINT);
        match child.wait().unwrap().code() {
            Some(130) => assert_eq!(files(&name), Vec::<PathBuf>::new()),
            Some(0) => drop(run(&["destroy", "-q", "--wait", &name])),
            // Before the signal was caught it ends the program, which had made nothing.
            None => assert_eq!(files(&name), Vec::<PathBuf>::new()),
            other => panic!("{other:?}"),
        }
    }
    let mut child = start(&["create", "-q", "--size", "3G", "--huge", "never"]);
    let made = || {
        segments::segments()
            .into_iter()
            .find(|segment| segment[3] == u64::from(child.id()))
    };
    eventually("there is a segment", || made().is_some());
    let [id, ..] = made().unwrap();
    signal(&child, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(segment(id), None);
}

#[test]
fn killed_half_way_it_leaves_what_a_plain_program_would() {
    let name = name("killed");
    for milliseconds in [0, 3, 10, 40, 90, 200] {
        let size = ["--size", "600M", "--huge", "never"];
        let mut child = start(&[&["create", "-q"], &size[..], &["--stripes", "2", &name]].concat());
        thread::sleep(Duration::from_millis(milliseconds));
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        // Names come at the end, for all that is there then.
        for file in files(&name) {
            assert_eq!(fs::metadata(&file).unwrap().blocks() * 512, 300 * MIB);
            fs::remove_file(file).unwrap();
        }
        eventually("no process is left", || processes_with(&name) == 0);

        let mut child = start(&[&["create", "-q"], &size[..]].concat());
        thread::sleep(Duration::from_millis(milliseconds));
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        let left: Vec<_> = segments::segments()
            .into_iter()
            .filter(|segment| segment[3] == u64::from(child.id()))
            .collect();
        assert!(
            left.len() <= 1 && left.iter().all(|segment| segment[4] == 0),
            "{left:?}"
        );
        for [id, ..] in left {
            run(&["destroy", "-q", "--plain", &id.to_string()]);
        }
    }
}

#[test]
fn killed_while_destroying_nothing_is_half_there() {
    for milliseconds in [0, 1, 2, 4, 8, 20] {
        let id = run(&["create", "-q", "--size", "300M", "--huge", "never"]);
        let id = id.trim();
        let mut child = start(&["destroy", "-q", "--wait", id]);
        thread::sleep(Duration::from_millis(milliseconds));
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        eventually("no reaper is left", || {
            processes_with(&format!("v{id}")) == 0
        });
        match segment(id.parse().unwrap()) {
            None => {}
            Some([_, mode, _, _, attached, resident]) => {
                assert_eq!((mode, attached, resident), (0o600, 0, 300 * MIB));
                run(&["destroy", "-q", "--plain", id]);
            }
        }
    }
}
