//! Runs `bigiron mem`, and reads what the kernel reports about memory.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

pub const MIB: u64 = 1 << 20;

pub fn mem(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bigiron"));
    command.arg("mem").args(arguments);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
pub fn run(arguments: &[&str]) -> String {
    let output = mem(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
pub fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&run(arguments)).unwrap()
}

#[track_caller]
pub fn fails(output: &Output, code: i32, part: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(part), "no {part:?} in: {said}");
}

/// Returns a name that no other test uses.
pub fn name(of: &str) -> String {
    format!("bigiron-test-{}-{of}", std::process::id())
}

/// Returns the files in /dev/shm whose names begin with `name`, sorted.
pub fn files(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev/shm").unwrap().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut found: Vec<_> = paths
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(name)
        })
        .collect();
    found.sort();
    found
}

/// Returns the kernel's list of segments: id, mode, size, creator, attachments, resident bytes.
pub fn segments() -> Vec<[u64; 6]> {
    let list = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let columns = [1, 2, 3, 4, 6, 14];
    let parse = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        columns.map(|column| match column {
            2 => u64::from_str_radix(fields[2], 8).unwrap(),
            _ => fields[column].parse().unwrap(),
        })
    };
    list.lines().skip(1).map(parse).collect()
}

pub fn segment(id: u64) -> Option<[u64; 6]> {
    segments().into_iter().find(|segment| segment[0] == id)
}

/// Returns the number of processes of this program that have `word` as an argument.
pub fn processes_with(word: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| {
            let line = text(line);
            line.contains("bigiron\0mem\0") && line.split('\0').any(|found| found == word)
        })
        .count()
}

/// Waits for a condition. The limit is for one that never holds.
#[track_caller]
pub fn eventually(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(600), "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
