//! If the system refuses threads, advice or files, or has little space, calls behave exactly
//! like the plain ones.

mod common;

use common::{Program, SMALL_TO_THE_END};

fn same(case: &str, accelerated: &[&str]) {
    if let Some(program) = Program::compile("denied") {
        program.same(&[case], SMALL_TO_THE_END, accelerated);
    }
}

/// Bytes of the stack of the case few-pages.
const SMALL_STACK: usize = 32 << 10;

const ALL: [&str; 6] = ["exit", "mlock", "mlockall", "mmap", "munmap", "shmdt"];

#[test]
fn no_threads() {
    // Without threads it is also impossible to check that no other process uses the memory at
    // the end.
    same("no-threads", &ALL[1..]);
}

#[test]
fn no_advice() {
    same("no-advice", &[]);
}

#[test]
fn no_files() {
    // Without files no trace can be written.
    same("no-files", &[]);
}

#[test]
fn few_processes() {
    same("few-processes", &ALL);
}

#[test]
fn few_addresses() {
    same("few-addresses", &ALL);
}

#[test]
fn few_descriptors() {
    same("few-descriptors", &[]);
}

#[test]
fn no_proc() {
    // Without /proc the trace has no path.
    same("no-proc", &[]);
}

#[test]
fn small_stacks() {
    // On such a stack helpers are not started. glibc's smallest one depends on the architecture.
    if rustix::param::page_size() > SMALL_STACK {
        println!("skipped: stacks of 32 KiB are too small for this machine");
        return;
    }
    same("few-pages", &[]);
}
