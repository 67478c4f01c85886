//! Large aligned blocks are locked and populated as by the allocator's plain call, and
//! accelerated if all new memory is locked.

mod common;

use common::{Program, SMALL};

#[test]
fn blocks_in_a_process_that_locks_all() {
    if let Some(program) = Program::compile("aligned") {
        program.same(&[], SMALL, &["memalign", "mlockall", "mmap"]);
    }
}

#[test]
fn blocks_beside_other_threads() {
    if let Some(program) = Program::compile("aligned") {
        // The C library's own mappings of two pages must be below the threshold.
        let policy = SMALL.replace("threshold=64K", "threshold=256K");
        program.same(&["beside"], &policy, &["mlockall"]);
        let policy = format!("{policy},memalign=always");
        program.same(&["beside"], &policy, &["memalign", "mlockall"]);
    }
}
