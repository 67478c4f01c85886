//! Every replaced call behaves like the plain one, and is accelerated.

mod common;

use common::{Program, SMALL};

fn same(case: &str, accelerated: &[&str]) {
    if let Some(program) = Program::compile("calls") {
        program.same(&[case], SMALL, accelerated);
    }
}

#[test]
fn mmap_makes_pages() {
    same("mmap-populate", &["mmap"]);
}

#[test]
fn mmap_without_pages_to_populate_is_the_plain_call() {
    // One of the calls maps a page, which must be below the threshold.
    if let Some(program) = Program::compile("calls") {
        let policy = SMALL.replace("threshold=64K", "threshold=128K");
        program.same(&["mmap-plain"], &policy, &["munmap"]);
    }
}

#[test]
fn mmap_of_files() {
    same("mmap-file", &["mmap"]);
}

#[test]
fn mmap_locks() {
    same("mmap-locked", &["mmap", "munmap"]);
}

#[test]
fn mlock_and_mlock2() {
    same("locks", &["mlock", "munmap"]);
}

#[test]
fn mlockall_and_later_mappings() {
    same("lock-all", &["mlockall", "mmap"]);
}

#[test]
fn munmap_of_parts_and_over_holes() {
    same("unmap", &["munmap"]);
}

#[test]
fn madvise_populates() {
    same("advise", &["madvise"]);
}
