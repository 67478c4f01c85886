//! The policy is read from the environment and a file, and each call can be left plain.

mod common;

use std::collections::HashSet;
use std::process::{Command, Output};

use common::{Program, SMALL, kinds, library, run};

const ALL: [&str; 9] = [
    "exit", "madvise", "mlock", "mlockall", "mmap", "munmap", "shmat", "shmctl", "shmdt",
];

/// All features, including those that no program requests.
const EVERYTHING: &str = "threshold=64K,chunk=64K,huge=never,attach=plain";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn refuses(output: &Output, expected: &str) {
    let error = text(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(text(&output.stdout), "done\n");
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 1, "{error}");
    assert!(lines[0].starts_with("bigiron mem: "), "{error}");
    assert!(lines[0].contains(expected), "{error}");
    assert!(lines[0].ends_with("; nothing is accelerated"), "{error}");
}

#[test]
fn invalid_policy_is_reported_and_nothing_is_accelerated() {
    let Some(program) = Program::compile("policies") else {
        return;
    };
    let with = |policy: &str| run(&mut program.preloaded(&[], policy));
    refuses(
        &with("trace=stderr,threshold=64K,speed=11"),
        "BIGIRON_MEM: `speed=11`: expected a key",
    );
    refuses(
        &with("trace=stderr,helpers=many"),
        "BIGIRON_MEM: `helpers=many`: expected a number from 1 to 64",
    );
    let file = program.folder().join("policy");
    let with_file = || {
        let mut command = program.preloaded(&[], "threshold=64K,trace=stderr");
        run(command.env("BIGIRON_MEM_POLICY", &file))
    };
    refuses(&with_file(), "policy: No such file");
    std::fs::write(&file, "helpers = 2\nthreshold 5\n").unwrap();
    refuses(&with_file(), "policy: `threshold 5`: expected key=value");
}

#[test]
fn variable_overrides_the_policy_file() {
    let Some(program) = Program::compile("policies") else {
        return;
    };
    let file = program.folder().join("policy");
    std::fs::write(
        &file,
        "# all\nthreshold = 64K\nchunk=64K\ntrace = stderr\nlock=plain\nhelpers=1\n",
    )
    .unwrap();
    let mut command = program.preloaded(&[], "helpers=2,exit=plain");
    let output = run(command.env("BIGIRON_MEM_POLICY", &file));
    let trace = text(&output.stderr);
    let accelerated = kinds(&trace);
    assert!(accelerated.contains(&"mmap".into()), "{trace}");
    for kind in ["mlock", "mlockall", "exit"] {
        assert!(!accelerated.contains(&kind.into()), "{kind}: {trace}");
    }
}

#[test]
fn each_call_can_be_left_plain() {
    let Some(program) = Program::compile("policies") else {
        return;
    };
    let accelerated = |change: &str| {
        let (output, trace) = program.traced(&[], &format!("{EVERYTHING},{change}"));
        assert_eq!(text(&output.stdout), "done\n", "{change}");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{change}"
        );
        kinds(&trace)
    };
    let without = |kinds: &[&str]| -> Vec<String> {
        let left = ALL.iter().filter(|kind| !kinds.contains(kind));
        left.map(|kind| (*kind).to_owned()).collect()
    };
    assert_eq!(accelerated("attach=create"), without(&["shmctl"]));
    assert_eq!(accelerated("attach=plain"), without(&["shmat"]));
    assert_eq!(
        accelerated("attach=create,shm-lock=plain"),
        without(&["shmctl"])
    );
    assert_eq!(accelerated("shm-lock=plain"), without(&["shmat", "shmctl"]));
    assert_eq!(
        accelerated("lock=plain"),
        without(&["shmat", "mlock", "mlockall"])
    );
    assert_eq!(
        accelerated("populate=plain"),
        without(&["shmat", "madvise", "mmap"])
    );
    assert_eq!(
        accelerated("destroy=plain"),
        without(&["shmat", "munmap", "shmdt"])
    );
    assert_eq!(accelerated("exit=plain"), without(&["shmat", "exit"]));
    assert!(accelerated("enabled=no").is_empty());
    assert!(
        accelerated("threshold=1G,attach=create")
            .iter()
            .all(|kind| kind == "mlockall")
    );
}

#[test]
fn small_requests_are_the_plain_calls() {
    let Some(program) = Program::compile("policies") else {
        return;
    };
    let (output, trace) = program.traced(&[], "lock=plain,exit=plain");
    assert!(output.status.success());
    assert_eq!(trace, "");
}

/// Several threads populate the pages of one call, as strace shows. On a busy machine helpers
/// may find no slice left; the program therefore runs until one has worked.
#[test]
fn several_threads_work() {
    const MAX_RUNS: usize = 1000;
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: one processor");
        return;
    }
    let Some(program) = Program::compile("policies") else {
        return;
    };
    let log = program.folder().join("strace");
    let policy = format!("{SMALL},chunk=256K");
    let preload = format!("LD_PRELOAD={}", library().display());
    for _ in 0..MAX_RUNS {
        let traced = Command::new("strace")
            .args(["-f", "-qq", "-e", "trace=madvise,mmap", "-o"])
            .arg(&log)
            .args(["-E", &preload, "-E", &format!("BIGIRON_MEM={policy}")])
            .arg(program.plain(&[]).get_program())
            .output();
        let Ok(traced) = traced else {
            println!("skipped: no strace");
            return;
        };
        if !traced.status.success() {
            println!(
                "skipped: strace is not permitted to trace: {}",
                text(&traced.stderr)
            );
            return;
        }
        let log = std::fs::read_to_string(&log).unwrap();
        let calls = log.lines().filter(|line| line.contains("madvise("));
        let populating: Vec<_> = calls
            .filter(|line| line.contains("MADV_POPULATE_WRITE") || line.contains(", 0x17)"))
            .collect();
        assert!(populating.len() >= 8, "{log}");
        // The program's own flag is absent, because helpers have done its work.
        let asked = log.lines().filter(|line| line.contains("MAP_POPULATE"));
        assert_eq!(asked.count(), 0, "{log}");
        let threads: HashSet<_> = populating
            .iter()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        if threads.len() >= 2 {
            return;
        }
    }
    panic!("one thread did all the work in each of {MAX_RUNS} runs");
}

#[test]
fn huge_pages_are_requested_unless_program_or_policy_refuses() {
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if enabled.is_ok_and(|enabled| enabled.contains("[never]")) {
        println!("skipped: transparent_hugepage/enabled is never");
        return;
    }
    let Some(program) = Program::compile("policies") else {
        return;
    };
    let flags = |policy: &str| -> Vec<bool> {
        let output = run(&mut program.preloaded(&["huge"], policy));
        let text = text(&output.stdout);
        let flags = text.lines().filter(|line| line.contains("VmFlags"));
        flags.map(|line| line.contains(" hg")).collect()
    };
    assert_eq!(flags(""), [true, false]);
    assert_eq!(flags("huge=never"), [false, false]);
}

#[test]
fn valgrind_sees_the_plain_calls() {
    let Some(program) = Program::compile("policies") else {
        return;
    };
    let trace = program.folder().join("trace");
    let mut command = Command::new("valgrind");
    command
        .args(["--quiet", "--error-exitcode=9", "--leak-check=no"])
        .arg(program.plain(&[]).get_program())
        .env("LD_PRELOAD", library())
        .env(
            "BIGIRON_MEM",
            format!("{EVERYTHING},trace={}", trace.display()),
        );
    let Ok(output) = command.output() else {
        println!("skipped: no valgrind");
        return;
    };
    assert_eq!(text(&output.stdout), "done\n", "{output:?}");
    assert!(output.status.success() && !trace.exists(), "{output:?}");
}
