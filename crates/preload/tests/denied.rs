//! Where the system gives no threads, no advice, no files or little room, calls do what the
//! plain ones do, and nothing else.

mod common;

use common::{Program, SMALL_TO_THE_END};

fn same(case: &str, accelerated: &[&str]) {
    if let Some(program) = Program::compile("denied") {
        program.same(&[case], SMALL_TO_THE_END, accelerated);
    }
}

const ALL: [&str; 6] = ["exit", "mlock", "mlockall", "mmap", "munmap", "shmdt"];

#[test]
fn no_threads() {
    // Nor a way to see that nobody else uses the memory at the end.
    same("no-threads", &ALL[1..]);
}

#[test]
fn no_advice() {
    same("no-advice", &[]);
}

#[test]
fn no_files() {
    // Nor one to write a trace to.
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
    // Nor a place of the trace.
    same("no-proc", &[]);
}

#[test]
fn small_stacks() {
    // On which helpers are not even started.
    same("few-pages", &[]);
}
