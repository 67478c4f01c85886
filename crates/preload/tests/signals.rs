//! Signals, jumps out of handlers, cancellation and changes of the user find calls as whole
//! as system calls are.

mod common;

use common::{Program, SMALL, kinds};

fn same(case: &str, accelerated: &[&str]) {
    if let Some(program) = Program::compile("signals") {
        program.same(&[case], SMALL, accelerated);
    }
}

#[test]
fn handlers_run() {
    same("handlers", &["mmap", "munmap"]);
}

#[test]
fn handlers_call_what_they_interrupt() {
    same("nested", &["mmap", "munmap"]);
}

#[test]
fn handlers_jump_out() {
    same("jumps", &["mlock"]);
}

#[test]
fn threads_are_cancelled() {
    same("cancelled", &["mlock"]);
}

#[test]
fn the_user_changes() {
    same("users", &["mmap", "munmap"]);
}

#[test]
fn a_signal_ends_the_program() {
    let Some(program) = Program::compile("signals") else {
        return;
    };
    program.same(&["terminated"], SMALL, &["mmap", "munmap"]);
    let (_, trace) = program.traced(&["terminated"], SMALL);
    assert!(!kinds(&trace).is_empty(), "{trace}");
}
