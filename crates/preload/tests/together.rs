//! Threads and processes that make calls concurrently, on the same memory and on different
//! memory, get the results of the plain calls, and no thread is left.

mod common;

use common::{Program, SMALL_TO_THE_END};

/// Also with the accelerated end of a process.
fn same(case: &str, accelerated: &[&str]) {
    if let Some(program) = Program::compile("together") {
        program.same(&[case], SMALL_TO_THE_END, accelerated);
    }
}

#[test]
fn threads() {
    same(
        "threads",
        &["exit", "madvise", "mlock", "mmap", "munmap", "shmdt"],
    );
}

#[test]
fn forks_in_the_middle() {
    same("forks", &["exit", "mmap", "munmap"]);
}

#[test]
fn vforks() {
    same("vforks", &["exit", "mmap", "munmap"]);
}

#[test]
fn processes_that_share_memory() {
    same("clones", &["exit", "mmap", "munmap"]);
}
