//! Programs that end while other threads run: helpers free private memory if no thread and no
//! other process can see that, and nothing else changes.

mod common;

use common::{PATIENT, Program, SMALL_TO_THE_END};

const RUNS: usize = 10;

fn program() -> Option<Program> {
    Program::compile("threads_end")
}

/// Asserts that helpers free private memory at the end of each of several runs.
fn always_freed(case: &str) {
    if !threads_can_be_halted() {
        return;
    }
    if let Some(program) = program().map(|program| program.with(PATIENT)) {
        (0..RUNS).for_each(|_| program.same(&[case], SMALL_TO_THE_END, &["exit"]));
    }
}

/// Asserts that private memory is left to the kernel, however long threads may take to halt.
fn never_freed(case: &str) {
    if let Some(program) = program().map(|program| program.with(PATIENT)) {
        (0..RUNS).for_each(|_| program.same(&[case], SMALL_TO_THE_END, &[]));
    }
}

/// Asserts that private memory is left to the kernel if threads do not halt.
fn never_halted(case: &str) {
    if let Some(program) = program() {
        (0..RUNS).for_each(|_| program.same(&[case], SMALL_TO_THE_END, &[]));
    }
}

/// True if the library can halt threads on this machine: on x86-64, and without a seccomp
/// filter or a debugger.
fn threads_can_be_halted() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_zero = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        value.is_none_or(|value| value.trim() == "0")
    };
    let can = cfg!(target_arch = "x86_64") && is_zero("Seccomp:") && is_zero("TracerPid:");
    if !can {
        println!("skipped: threads are not halted under a seccomp filter or a debugger");
    }
    can
}

#[test]
fn threads_that_run() {
    always_freed("run");
    always_freed("_exit");
}

#[test]
fn threads_that_wait() {
    always_freed("sleep");
    always_freed("read");
}

#[test]
fn threads_that_block_signals() {
    always_freed("hold-signals");
    never_halted("hold-all-signals");
}

#[test]
fn stacks_in_freed_memory() {
    always_freed("own-stacks");
}

#[test]
fn threads_continue_after_the_first_thread_ends() {
    always_freed("first-ended");
}

#[test]
fn all_threads_end_the_process_at_once() {
    let Some(program) = program() else {
        return;
    };
    for _ in 0..50 {
        let output = common::run(&mut program.preloaded(&["at-once"], SMALL_TO_THE_END));
        assert_eq!(output.status.code(), Some(6));
        assert!(output.stdout.is_empty() && output.stderr.is_empty());
    }
}

#[test]
fn threads_that_start_other_threads() {
    ends_well("start-others");
}

#[test]
fn threads_that_fork() {
    ends_well("forks");
}

/// Asserts status and output only: threads may or may not be halted in time.
fn ends_well(case: &str) {
    let Some(program) = program() else {
        return;
    };
    for _ in 0..50 {
        let output = common::run(&mut program.preloaded(&[case], SMALL_TO_THE_END));
        assert_eq!(output.status.code(), Some(5), "{case}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "at exit 1\n",
            "{case}"
        );
    }
}

#[test]
fn other_processes_that_use_the_memory() {
    never_halted("vfork");
    never_freed("child-in-memory");
}

#[test]
fn robust_locks_and_userfaultfd() {
    never_freed("locks");
    never_freed("watched-memory");
}
