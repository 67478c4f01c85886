//! What depends on the architecture: one module for each, chosen from a table.

pub mod arm64;
#[cfg(feature = "stacks")]
pub mod stacks;
mod translator;
pub mod x86_64;

use crate::error::KernelError;

pub use translator::{Architecture, Leaf, MakeTranslator, TableEntry, Translator};

/// The supported architectures.
pub static ARCHITECTURES: &[Architecture] = &[x86_64::ARCHITECTURE];

/// Finds an architecture by name.
pub fn find(name: &str) -> Result<&'static Architecture, KernelError> {
    let found = ARCHITECTURES
        .iter()
        .find(|architecture| architecture.name == name);
    found.ok_or_else(|| KernelError::UnknownArchitecture {
        name: name.into(),
        known: names(),
    })
}

/// Finds an architecture by the `e_machine` of its ELF cores.
pub fn find_elf(machine: u16) -> Option<&'static Architecture> {
    ARCHITECTURES
        .iter()
        .find(|architecture| architecture.elf_machine == machine)
}

/// Names of the supported architectures, for messages.
pub fn names() -> String {
    ARCHITECTURES
        .iter()
        .map(|architecture| architecture.name)
        .collect::<Vec<_>>()
        .join(", ")
}
