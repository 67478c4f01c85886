//! What is said about damaged notes of a source.

use crate::kernel::Kernel;
use crate::source::{MemorySource, Source};

/// Returns warnings about damaged notes of `memory`, each with the offset of the damage. `kernel`
/// is the kernel in it, if it was found.
pub fn note_warnings(memory: &dyn MemorySource, kernel: Option<&Kernel>) -> Vec<String> {
    let notes = memory.notes();
    let unread = notes.damage();
    let unread =
        unread.map(|error| format!("the ELF notes after a damaged one are not read: {error}"));
    let unused = kernel.and_then(Kernel::note_damage);
    unread
        .into_iter()
        .chain(unused.map(ToOwned::to_owned))
        .collect()
}

/// Returns the warnings of [`note_warnings`], each with the name of the file.
pub fn named_note_warnings(source: &Source, kernel: Option<&Kernel>) -> Vec<String> {
    let path = source.path().display();
    let warnings = note_warnings(source.memory(), kernel).into_iter();
    warnings.map(|text| format!("{path}: {text}")).collect()
}
