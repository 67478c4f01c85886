//! If the plain call fails, the accelerated one fails with the same errno, and leaves the same
//! state.

mod common;

use common::{Program, SMALL};

fn same(case: &str, accelerated: &[&str]) {
    if let Some(program) = Program::compile("errors") {
        program.same(&[case], SMALL, accelerated);
    }
}

#[test]
fn mmap_and_munmap() {
    same("maps", &[]);
}

#[test]
fn mlock_mlock2_and_mlockall() {
    same("locks", &["mlock"]);
}

#[test]
fn limits_of_locked_memory() {
    same("limits", &["mlock", "mmap"]);
}

#[test]
fn no_right_to_lock() {
    same("no-locks", &[]);
}

#[test]
fn segments() {
    same("segments", &["shmdt"]);
}

#[test]
fn madvise() {
    same("advice", &["madvise"]);
}

#[test]
fn failed_munmap_keeps_contents() {
    same("crowded", &["munmap"]);
    same("sealed", &[]);
}
