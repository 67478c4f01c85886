//! Accelerated calls behave like system calls with signals, jumps out of handlers, cancellation
//! and changes of the user ID.

mod common;

use common::{Program, SMALL};

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
fn handlers_make_the_interrupted_call_again() {
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
fn calls_after_a_change_of_user() {
    same("users", &["mmap", "munmap"]);
}

#[test]
fn fatal_signal_ends_the_program() {
    same("terminated", &["mmap", "munmap"]);
}
