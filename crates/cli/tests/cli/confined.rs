//! Commands that read a dump confine themselves: the same output, and in force before the dump
//! is read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::sample;
use crate::common::{Lab, arg, command, finish, run};
use crate::mounted::{Mounted, can_mount};

/// Returns a dump of the sample, made in the lab's directory.
fn dump_of_sample(lab: &Lab) -> (PathBuf, PathBuf) {
    let vmcore = sample::unpack(lab.path("").as_path());
    let dump = lab.path("dump");
    run(&["dump", "-q", "-d", "31", arg(&vmcore), arg(&dump)]).code(0);
    (vmcore, dump)
}

/// Returns true if the kernel has both mechanisms; prints the reason if not.
fn can_confine() -> bool {
    // SAFETY: with this flag the call only returns the version of Landlock.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, 1) };
    if version < 1 {
        println!("skipped: the kernel has no Landlock");
        return false;
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    if !status.contains("Seccomp:") {
        println!("skipped: the kernel has no seccomp");
        return false;
    }
    true
}

#[test]
fn output_is_the_same_as_without_the_sandbox() {
    let lab = Lab::new();
    let (vmcore, dump) = dump_of_sample(&lab);
    let (vmcore, dump) = (arg(&vmcore), arg(&dump));
    let earlier = lab.path("domains.json");
    let domains = run(&["cpu", "domains", dump, "--as", "json"]).code(0);
    fs::write(&earlier, domains.stdout).unwrap();
    let commands: [&[&str]; 19] = [
        &["info", "--all", dump],
        &["info", "--json", vmcore],
        &["info", "--io", "mmap", vmcore],
        &["dmesg", "-x", dump],
        &["sym", dump, "init_task"],
        &["type", dump, "page"],
        &["read", dump, "init_task"],
        &["report", dump, "-o", "-"],
        &["cpu", "domains", dump],
        &["cpu", "domains", dump, "--diff", arg(&earlier)],
        &["verify", dump],
        &["verify", "-j", "3", dump, "--against", vmcore],
        &["diff", "--list", dump, vmcore],
        &["diff", dump, dump],
        &["info", "--log", "/proc/version"],
        &["triage", "row", dump],
        &["triage", "row", "/proc/version"],
        &["info", "/dev/null"],
        &["read", dump, "none_such"],
    ];
    for words in commands {
        let confined = run(words);
        let free = run(&[words, &["--no-sandbox"]].concat());
        assert_eq!(confined.code, free.code, "{words:?}: {}", confined.stderr);
        assert_eq!(confined.stderr, free.stderr, "{words:?}");
        assert!(confined.stdout == free.stdout, "{words:?}");
    }
}

#[test]
fn standard_input_is_read_inside_the_sandbox() {
    let lab = Lab::new();
    let dump = lab.dump("flat", &["-f", "flattened", "-d", "31"]);
    let outcome = |extra: &[&str]| {
        let words = [&["info", "-"], extra].concat();
        let input = fs::File::open(&dump).unwrap();
        finish(command(&words).stdin(input).spawn().unwrap()).code(0)
    };
    assert_eq!(outcome(&[]).text(), outcome(&["--no-sandbox"]).text());
}

#[test]
fn files_are_written_inside_the_sandbox_and_never_over_others() {
    let lab = Lab::new();
    let (_, dump) = dump_of_sample(&lab);
    for (name, words) in [("report.html", &["report"][..]), ("log", &["dmesg"])] {
        let output = lab.path(name);
        let words = [words, &[arg(&dump), "-o", arg(&output)]].concat();
        run(&words).code(0);
        let written = fs::read(&output).unwrap();
        assert!(!written.is_empty());
        run(&words).code(1).says(&[arg(&output)]);
        assert!(fs::read(&output).unwrap() == written);
        // A dump that cannot be read leaves no file behind.
        let wrong = lab.path("wrong");
        let words = [&words[..1], &["/dev/null", "-o", arg(&wrong)]].concat();
        run(&words).code(1);
        assert!(!wrong.exists());
    }
    let mut names = fs::read_dir(lab.path("")).unwrap();
    let is_left = names.any(|entry| arg(&entry.unwrap().path()).contains("incomplete"));
    assert!(!is_left);
    let output = lab.path("report.html");
    let again = ["report", arg(&dump), "--overwrite", "-o", arg(&output)];
    run(&again).code(0);
}

/// The trace of a command's system calls, in order; `None` if they cannot be traced here.
fn traced(words: &[&str], log: &Path) -> Option<String> {
    let calls = "trace=openat,read,pread64,clone,clone3,landlock_restrict_self,seccomp";
    let status = Command::new("strace")
        .args(["-f", "-qq", "-e", calls, "-o", arg(log)])
        .arg(env!("CARGO_BIN_EXE_bigiron"))
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output();
    match status {
        Ok(output) if output.status.success() => Some(fs::read_to_string(log).unwrap()),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            println!("skipped: strace: {why}");
            None
        }
        Err(error) => {
            println!("skipped: strace: {error}");
            None
        }
    }
}

#[test]
fn sandbox_is_in_force_before_the_dump_is_read() {
    if !can_confine() {
        return;
    }
    let lab = Lab::new();
    let (vmcore, dump) = dump_of_sample(&lab);
    let (report, log) = (lab.path("report.html"), lab.path("log"));
    let commands: [&[&str]; 10] = [
        &["info", arg(&dump)],
        &["dmesg", arg(&dump)],
        &["dmesg", arg(&dump), "-o", arg(&log)],
        &["sym", arg(&dump), "init_task"],
        &["type", arg(&dump), "page"],
        &["read", arg(&dump), "init_task"],
        &["report", arg(&dump), "-o", arg(&report)],
        &["cpu", "domains", arg(&dump)],
        &["verify", arg(&dump), "--against", arg(&vmcore)],
        &["diff", arg(&dump), arg(&dump)],
    ];
    for words in commands {
        let Some(trace) = traced(words, &lab.path("trace")) else {
            return;
        };
        let position = |call: &str| {
            let found = trace.lines().position(|line| line.contains(call));
            found.unwrap_or_else(|| panic!("{words:?}: no {call} in {trace}"))
        };
        let succeeds = |call: &str| {
            let at = position(call);
            let line = trace.lines().nth(at).unwrap();
            assert!(line.ends_with("= 0"), "{words:?}: {line}");
            at
        };
        let confined = succeeds("landlock_restrict_self(").max(succeeds("seccomp("));
        for file in [&dump, &vmcore] {
            let name = format!("\"{}\"", arg(file));
            let Some(opened) = trace
                .lines()
                .find(|line| line.contains("openat(") && line.contains(&name))
            else {
                continue;
            };
            let number = opened.rsplit(' ').next().unwrap();
            for call in ["read", "pread64"] {
                let call = format!(" {call}({number}, ");
                // The number may have served the program's own files before.
                let reads = trace
                    .lines()
                    .enumerate()
                    .filter(|(at, line)| line.contains(&call) && *at > position(&name));
                for (at, line) in reads {
                    assert!(at > confined, "{words:?}: {line}");
                }
            }
        }
        // Threads inherit it.
        let first_thread = trace.lines().position(|line| line.contains(" clone"));
        assert!(first_thread.is_none_or(|at| at > confined), "{words:?}");
    }
}

#[test]
fn mounted_dump_is_served_inside_the_sandbox() {
    if !can_mount() || !can_confine() {
        return;
    }
    let lab = Lab::new();
    let (_, dump) = dump_of_sample(&lab);
    let mounted = Mounted::new(lab.path("mnt"), &[&dump], &["-j", "3"]);
    let tasks = format!("/proc/{}/task", mounted.id());
    for task in fs::read_dir(tasks).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        for line in ["Seccomp:\t2\n", "NoNewPrivs:\t1\n"] {
            assert!(status.contains(line), "no {line:?} in {status}");
        }
    }
    let free = Mounted::new(lab.path("free"), &[&dump], &["--no-sandbox"]);
    let status = fs::read_to_string(format!("/proc/{}/status", free.id())).unwrap();
    assert!(status.contains("NoNewPrivs:\t0\n"), "{status}");
    for file in ["vmcore", "dmesg", "vmcoreinfo", "info.json"] {
        let (one, other) = (fs::read(mounted.path(file)), fs::read(free.path(file)));
        assert!(one.unwrap() == other.unwrap(), "{file}");
    }
}
