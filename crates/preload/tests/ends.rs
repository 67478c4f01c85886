//! However a program ends, all its output and its exit status are the same as without the
//! library.

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
    assert!(plain.status.code() != Some(98), "unknown case {case}");
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
fn by_calls_that_are_not_replaced() {
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
fn with_locks_held_by_other_threads() {
    same("locks", &["exit"]);
}

#[test]
fn totals_are_traced_at_the_end() {
    let Some(program) = Program::compile("ends") else {
        return;
    };
    let (_, trace) = program.traced(&["exit"], "threshold=64K,huge=never");
    assert_eq!(kinds(&trace), ["exit"], "{trace}");
    let last = trace.lines().last().unwrap();
    assert!(last.contains(" ends: in all: 1 exit 16.0 MiB "), "{last}");
}
