//! However a program ends, it says all that it would have said, to its parent too.

mod common;

use common::{Program, SMALL_TO_THE_END, kinds};

fn same(case: &str, accelerated: &[&str]) {
    let Some(program) = Program::compile("ends") else {
        return;
    };
    let left = || std::fs::read_to_string(program.folder().join("left")).unwrap_or_default();
    let plain = common::run(&mut program.plain(&[case]));
    let left_by_plain = left();
    program.same(&[case], SMALL_TO_THE_END, accelerated);
    assert_eq!(left(), left_by_plain, "{case}");
    assert!(plain.status.code() != Some(98), "{case} is no case");
}

#[test]
fn by_itself() {
    same("return", &["exit"]);
    same("exit", &["exit"]);
    same("exit-status", &["exit"]);
}

#[test]
fn at_once() {
    same("_exit", &["exit"]);
    same("_Exit", &["exit"]);
    same("handler", &["exit"]);
}

#[test]
fn by_ways_that_are_left_alone() {
    same("quick_exit", &[]);
    same("abort", &[]);
    same("kill", &[]);
}

#[test]
fn by_threads() {
    same("thread-exits", &["exit"]);
    same("thread-leaves", &["exit"]);
    same("last-thread", &["exit"]);
}

#[test]
fn while_threads_use_memory() {
    same("threads-run", &["exit"]);
    same("threads-run-exit", &["exit"]);
}

#[test]
fn by_children() {
    same("children", &["exit"]);
}

#[test]
fn with_locks_of_others() {
    same("locks", &["exit"]);
}

#[test]
fn what_was_done_is_told_at_the_end() {
    let Some(program) = Program::compile("ends") else {
        return;
    };
    let (_, trace) = program.traced(&["exit"], "threshold=64K,huge=never");
    assert_eq!(kinds(&trace), ["exit"], "{trace}");
    let last = trace.lines().last().unwrap();
    assert!(last.contains(" ends: in all: 1 exit 16.0 MiB "), "{last}");
}
