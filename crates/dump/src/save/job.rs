//! One copy: its source, its target, and its result.

use bigiron_helpers::Stop;

use super::directory::Directory;
use super::options::SaveOptions;
use super::origin::Origin;
use super::temporary::Temporary;
use crate::progress::Progress;

/// A copy in progress.
pub struct SaveJob<'a> {
    pub origin: &'a Origin,
    pub options: &'a SaveOptions,
    pub directory: &'a Directory,
    pub temporary: &'a Temporary<'a>,
    pub progress: &'a Progress,
    pub stop: &'a Stop,
}

/// A copy under its temporary name.
#[derive(Default)]
pub struct Made {
    pub bytes: u64,
    pub copied: u64,
    pub damage: Option<String>,
    /// Describes what the disk of the source did not return; `None` if all was read.
    pub unreadable: Option<String>,
    /// What else the user should know of the dump.
    pub warnings: Vec<String>,
}
