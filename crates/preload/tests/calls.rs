//! Every call that the library stands before does what the plain one does, and is accelerated.

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
fn mmap_of_nothing_to_make_is_the_plain_call() {
    same("mmap-plain", &["munmap"]);
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
fn mlockall_and_what_is_mapped_after_it() {
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
