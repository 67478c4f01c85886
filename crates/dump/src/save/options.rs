//! Options of a save.

use std::path::{Path, PathBuf};

use bigiron_helpers::{MemoryBudget, Stop};

/// Options of a save.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// The target directory.
    pub directory: PathBuf,
    /// Expand to an uncompressed ELF core.
    pub expand: bool,
    /// Save a dump that was saved before.
    pub again: bool,
    /// Leave the device's valid mark set.
    pub keep_mark: bool,
    /// The file with the age secret keys of an encrypted dump; without it such a dump is copied
    /// as it is.
    pub identity: Option<PathBuf>,
    /// Maximum number of helper threads.
    pub threads: usize,
    /// Memory for all helpers together.
    pub memory: MemoryBudget,
}

/// Arguments of opening a source.
#[derive(Clone, Copy)]
pub struct OpenContext<'a> {
    pub options: &'a SaveOptions,
    pub stop: &'a Stop,
    /// Called once with the path of a device that another program writes or saves.
    pub waiting: &'a dyn Fn(&Path),
}
