//! The sample of arm64: a kernel with 52-bit addresses, five levels of page tables and signed
//! return addresses. The judges are the kernel itself, which printed its call trace on the console,
//! and the guest's program, which listed the pages that it made.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{arg, present, run, sample};

/// The console from the crash on, without times.
fn console() -> Vec<String> {
    let text = fs::read_to_string(sample::file("linux-6.12-arm64.console.txt")).unwrap();
    let message = |line: &str| line.split_once("] ").map_or(line, |(_, text)| text).into();
    text.lines().map(message).collect()
}

/// The functions of the call trace on the console, innermost first.
fn printed_trace() -> Vec<String> {
    let console = console();
    let lines = console.iter().skip_while(|line| *line != "Call trace:");
    let calls = lines.skip(1).map_while(|line| line.strip_prefix(' '));
    calls.map(String::from).collect()
}

/// The classes that the guest prepared, with their page frames.
fn prepared() -> BTreeMap<String, Vec<usize>> {
    let text = fs::read_to_string(sample::file("linux-6.12-arm64.pages.txt")).unwrap();
    let mut classes = BTreeMap::<_, Vec<_>>::new();
    for line in text.lines() {
        let (class, frame) = line.split_once(' ').unwrap();
        let frames = classes.entry(class.to_owned()).or_default();
        frames.push(frame.parse().unwrap());
    }
    classes
}

fn information(dump: &Path, option: &str) -> Value {
    let said = run(&["info", "--json", option, arg(dump)]).code(0);
    serde_json::from_slice(&said.stdout).unwrap()
}

fn functions(task: &Value) -> Vec<String> {
    let frames = task["frames"].as_array().unwrap().iter();
    frames
        .map(|frame| frame["symbol"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn panic_on_arm64_is_found_as_the_kernel_printed_it() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack_arm64(directory.path());
    let shown = run(&["info", arg(&vmcore)]).code(0).text();
    let console = console();
    let cpu = console.iter().find_map(|line| line.strip_prefix("CPU: "));
    let cpu = cpu.and_then(|rest| rest.split(' ').next()).unwrap();
    for line in [
        "kernel    Linux 6.12.117+deb12-cloud-arm64 aarch64",
        "panic     sysrq triggered crash",
        &format!("task      init (PID 1) on CPU {cpu}"),
        "CPUs      2",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    let trace = printed_trace();
    assert!(trace.len() > 10, "{trace:?}");
    for call in trace {
        assert!(shown.contains(&call), "{call}\n{shown}");
    }
}

#[test]
fn log_of_an_arm64_kernel_is_what_it_printed_on_the_console() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack_arm64(directory.path());
    let log = run(&["dmesg", arg(&vmcore)]).code(0).text();
    let log: Vec<_> = log
        .lines()
        .filter_map(|line| line.split_once("] ").map(|(_, text)| text))
        .collect();
    let console = console();
    let first = log.iter().position(|line| *line == console[0]).unwrap();
    let lines = console.iter().filter(|line| !line.is_empty());
    for (ours, theirs) in log[first..].iter().zip(lines) {
        assert_eq!(ours, theirs);
    }
}

/// The stack of the task that panicked continues from `panic` out as the kernel's own unwinder
/// printed it.
#[test]
fn stacks_on_arm64_are_those_of_the_kernels_unwinder() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack_arm64(directory.path());
    let found = information(&vmcore, "--stacks");
    let tasks = found["stacks"]["tasks"].as_array().unwrap();
    let stack_of = |pid: u64| {
        let task = tasks.iter().find(|task| task["pid"] == pid).unwrap();
        functions(task)
    };
    let from_panic = |calls: Vec<String>| {
        let calls = calls.into_iter();
        calls.skip_while(|call| call != "panic").collect::<Vec<_>>()
    };
    let printed = printed_trace();
    let printed = printed.iter().map(|call| call.split('+').next().unwrap());
    let theirs = from_panic(printed.map(String::from).collect());
    assert_eq!(from_panic(stack_of(1)), theirs);
    // A kernel thread that waits: kthreadd.
    let waiting = stack_of(2);
    for call in ["__schedule", "schedule", "kthreadd", "ret_from_fork"] {
        assert!(waiting.iter().any(|found| found == call), "{waiting:?}");
    }
}

#[test]
fn levels_exclude_the_pages_that_an_arm64_guest_prepared() {
    const EXCLUDED: [(&str, &[&str]); 4] = [
        ("0", &[]),
        ("2", &["cache_clean", "cache_dirty", "shm", "tmpfs"]),
        (
            "4",
            &[
                "cache_clean",
                "cache_dirty",
                "cache_private_clean",
                "cache_private_dirty",
                "shm",
                "tmpfs",
            ],
        ),
        (
            "8",
            &[
                "anon",
                "anon_equal",
                "anon_zero",
                "hugetlb",
                "ksm",
                "mlocked",
                "thp",
            ],
        ),
    ];
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack_arm64(directory.path());
    let classes = prepared();
    for (level, excluded) in EXCLUDED {
        let dump = directory.path().join(level);
        run(&["dump", "-q", "-d", level, arg(&vmcore), arg(&dump)]).code(0);
        run(&["verify", "-q", arg(&dump), "--against", arg(&vmcore)]).code(0);
        let present = present(&dump);
        for (class, frames) in &classes {
            let kept = frames.iter().filter(|frame| present[**frame]).count();
            // Pages that the hardware reports as bad are never read.
            let none = class == "poison" || excluded.contains(&class.as_str());
            let expected = if none { 0 } else { frames.len() };
            assert_eq!(kept, expected, "{class} at level {level}");
        }
    }
}

/// Pages of zeros are not absent from a dump at level 1: they read as zeros.
#[test]
fn zero_pages_of_an_arm64_guest_are_excluded_at_level_1() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack_arm64(directory.path());
    let dump = directory.path().join("dump");
    let arguments = ["dump", "--json", "-d", "1", arg(&vmcore), arg(&dump)];
    let summary: Value = serde_json::from_slice(&run(&arguments).code(0).stdout).unwrap();
    let zero = &summary["pages"]["zero"];
    assert_eq!(zero, prepared()["anon_zero"].len(), "{summary}");
    run(&["verify", "-q", arg(&dump), "--against", arg(&vmcore)]).code(0);
}

#[test]
fn smallest_dump_of_an_arm64_kernel_says_the_same_as_its_source() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack_arm64(directory.path());
    for format in ["kdump", "elf", "vmdump"] {
        let dump = directory.path().join(format);
        run(&[
            "dump",
            "-q",
            "-d",
            "31",
            "-f",
            format,
            arg(&vmcore),
            arg(&dump),
        ])
        .code(0);
        for option in ["--stacks", "--tasks", "--modules"] {
            let section = option.trim_start_matches('-');
            let ours = &information(&dump, option)[section];
            assert_eq!(ours, &information(&vmcore, option)[section], "{format}");
            assert!(ours.is_object(), "{section} of {format}");
        }
    }
}
