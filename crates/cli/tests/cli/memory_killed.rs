//! State left by `bigiron mem` when it is interrupted or killed at any moment.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Child;
use std::thread;

use crate::segments;
use crate::segments::{MIB, eventually, files, mem, name, processes_with, run, segment};

/// Shared memory of a process at which it is stopped, in MiB.
const STEPS: [u64; 6] = [0, 1, 20, 80, 200, 400];

fn start(arguments: &[&str]) -> Child {
    mem(arguments).spawn().unwrap()
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: a signal to this test's own child, which has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
}

/// Waits until a process has this many MiB of shared memory in its page tables, or has ended.
fn wait_for_memory(child: &Child, mebibytes: u64) {
    let folder = PathBuf::from(format!("/proc/{}", child.id()));
    let is_zombie = || {
        let stat = fs::read_to_string(folder.join("stat")).unwrap();
        stat.rsplit(')').next().unwrap().starts_with(" Z")
    };
    let shared_pages = || -> u64 {
        let statm = fs::read_to_string(folder.join("statm")).unwrap();
        statm.split(' ').nth(2).unwrap().parse().unwrap()
    };
    let page = rustix::param::page_size() as u64;
    while shared_pages() * page < mebibytes * MIB && !is_zombie() {
        thread::yield_now();
    }
}

#[test]
fn interrupted_create_leaves_nothing() {
    let name = name("interrupted");
    for mebibytes in STEPS {
        let mut child = start(&["create", "-q", "--size", "600M", "--huge", "never", &name]);
        wait_for_memory(&child, mebibytes);
        signal(&child, libc::SIGINT);
        match child.wait().unwrap().code() {
            Some(130) => assert_eq!(files(&name), Vec::<PathBuf>::new()),
            Some(0) => drop(run(&["destroy", "-q", "--wait", &name])),
            // The signal came before it was caught: nothing had been created.
            None => assert_eq!(files(&name), Vec::<PathBuf>::new()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn terminated_create_leaves_no_segment() {
    // Repeated until a process is terminated between creating a segment and finishing.
    loop {
        let mut child = start(&["create", "-q", "--size", "600M", "--huge", "never"]);
        let creator = u64::from(child.id());
        let created = || {
            let mut all = segments::segments().into_iter();
            all.find(|segment| segment[3] == creator)
        };
        eventually("there is a segment", || created().is_some());
        signal(&child, libc::SIGTERM);
        match child.wait().unwrap().code() {
            Some(143) => return assert_eq!(created(), None),
            Some(0) => drop(run(&["destroy", "-q", &created().unwrap()[0].to_string()])),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn killed_create_leaves_what_a_plain_program_would() {
    let name = name("killed");
    for mebibytes in STEPS {
        let size = ["--size", "600M", "--huge", "never"];
        let mut child = start(&[&["create", "-q"], &size[..], &["--stripes", "2", &name]].concat());
        wait_for_memory(&child, mebibytes);
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        // A file gets its name when all of its pages are there.
        for file in files(&name) {
            assert_eq!(fs::metadata(&file).unwrap().blocks() * 512, 300 * MIB);
            fs::remove_file(file).unwrap();
        }
        eventually("no process is left", || processes_with(&name) == 0);

        let mut child = start(&[&["create", "-q"], &size[..]].concat());
        wait_for_memory(&child, mebibytes);
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
fn killed_destroy_leaves_a_whole_segment_or_none() {
    for round in 0..6 {
        let id = run(&["create", "-q", "--size", "300M", "--huge", "never"]);
        let id = id.trim();
        let mut child = start(&["destroy", "-q", "--wait", id]);
        // The moment varies; the result must not depend on it.
        for _ in 0..round * 300 {
            thread::yield_now();
        }
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
