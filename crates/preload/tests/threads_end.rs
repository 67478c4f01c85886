//! Programs that end while other threads live: nothing else changes, and private memory
//! is given back by helpers where nobody can see that.

mod common;

use common::{Program, SMALL_TO_THE_END};

const RUNS: usize = 10;

/// Asserts that the program does the same with the library as without it, and gives how often
/// helpers gave private memory back. `None` where there is no compiler.
fn given_back(case: &str) -> Option<usize> {
    let program = Program::compile("threads_end")?;
    let runs =
        (0..RUNS).filter(|_| program.same_with_or_without(&[case], SMALL_TO_THE_END, &["exit"]));
    Some(runs.count())
}

/// On a busy machine threads may not be halted in time.
fn given_back_at_times(case: &str) {
    assert_ne!(given_back(case), Some(0), "{case}");
}

fn never_given_back(case: &str) {
    assert_eq!(given_back(case).unwrap_or(0), 0, "{case}");
}

#[test]
fn threads_that_run() {
    given_back_at_times("run");
    given_back_at_times("_exit");
}

#[test]
fn threads_that_wait() {
    given_back_at_times("sleep");
    given_back_at_times("read");
}

#[test]
fn threads_that_hold_signals_back() {
    given_back_at_times("hold-signals");
    never_given_back("hold-all-signals");
}

#[test]
fn stacks_in_memory_that_is_given_back() {
    given_back_at_times("own-stacks");
}

#[test]
fn the_first_thread_has_ended() {
    given_back_at_times("first-ended");
}

#[test]
fn all_threads_end_the_process_at_once() {
    let Some(program) = Program::compile("threads_end") else {
        return;
    };
    for _ in 0..50 {
        let output = common::run(&mut program.preloaded(&["at-once"], SMALL_TO_THE_END));
        assert_eq!(output.status.code(), Some(6));
        assert!(output.stdout.is_empty() && output.stderr.is_empty());
    }
}

#[test]
fn threads_that_start_others() {
    end_well("start-others");
}

#[test]
fn threads_that_fork() {
    end_well("forks");
}

/// Whether all threads were halted in time is open.
fn end_well(case: &str) {
    let Some(program) = Program::compile("threads_end") else {
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
    never_given_back("vfork");
    never_given_back("child-in-memory");
}

#[test]
fn what_the_kernel_tells_others() {
    never_given_back("locks");
    never_given_back("watched-memory");
}
