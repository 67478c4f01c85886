//! `bigiron mem kill`.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use crate::segments::{MIB, fails, json, mem, text};

/// Starts a process with this much private memory: dd fills its buffer, and then waits to write
/// it to a pipe that nobody reads.
fn holder(bytes: u64) -> Child {
    let child = Command::new("dd")
        .args(["if=/dev/zero", "count=1", &format!("bs={bytes}")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while private_bytes(&child) < bytes {
        thread::sleep(Duration::from_millis(5));
    }
    child
}

/// Returns the anonymous memory of a process by another file than the program's.
fn private_bytes(process: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib: u64 = line.map_or(0, |line| {
        line.trim_matches([' ', '\t', 'k', 'B']).parse().unwrap()
    });
    kib << 10
}

#[test]
fn killed_processes_have_ended_when_the_command_returns() {
    let mut children = [holder(64 * MIB), holder(32 * MIB)];
    let ids = children.each_ref().map(|child| child.id().to_string());
    let report = json(&["kill", "--json", &ids[0], &ids[1]]);
    for (child, (number, bytes)) in children.iter_mut().zip([(0, 64 * MIB), (1, 32 * MIB)]) {
        let status = child.try_wait().unwrap().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
        assert_eq!(report[number]["process"], child.id());
        assert!(report[number]["private_bytes"].as_u64().unwrap() >= bytes);
        assert!(report[number]["helpers"].as_u64().unwrap() <= 2);
    }
}

#[test]
fn process_is_killed_without_helpers_too() {
    let mut child = holder(MIB);
    let output = mem(&["kill", "--helpers", "0", &child.id().to_string()])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("without helpers"), "{said}");
    let status = child.try_wait().unwrap().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL));
}

#[test]
fn other_processes_are_killed_after_a_failure() {
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let (gone, mut child) = (gone.id().to_string(), holder(MIB));
    let output = mem(&["kill", &gone, &child.id().to_string()])
        .output()
        .unwrap();
    fails(
        &output,
        1,
        &format!("cannot kill process {gone}: No such process"),
    );
    let status = child.try_wait().unwrap().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL));
}
