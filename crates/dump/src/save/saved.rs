//! The result of a save.

use std::path::PathBuf;

use bigiron_format::device::DumpId;

use super::directory::Directory;
use crate::error::DumpError;

/// The result of a save.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The dump's id.
    pub id: DumpId,
    /// The dump's number in the directory.
    pub number: u64,
    /// The dump's file.
    pub path: PathBuf,
    /// True if an earlier run saved the dump.
    pub before: bool,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// Bytes copied; the rest are holes.
    pub copied: u64,
    /// The reason why the dump is incomplete; `None` if it is complete, or if that is unknown.
    pub damage: Option<String>,
    /// The bytes of the source that could not be read: while the disk exists, another attempt may
    /// read them.
    pub unreadable: Option<String>,
    /// True if the copy is still encrypted, so that its contents are unknown.
    pub encrypted: bool,
    /// Warnings about the dump, about the directory, and about files in it that belong to other users.
    pub warnings: Vec<String>,
}

impl Saved {
    /// Describes the dump `STEM.NUMBER` that an earlier run saved, after a sync of its directory.
    pub(super) fn before(
        directory: &Directory,
        id: DumpId,
        stem: &str,
        number: u64,
        unreadable: Option<String>,
        encrypted: bool,
    ) -> Result<Self, DumpError> {
        // The earlier run may have failed to.
        directory.sync()?;
        Ok(Self {
            id,
            number,
            path: directory.path(stem, number),
            before: true,
            bytes: directory.size_of(stem, number).unwrap_or(0),
            copied: 0,
            damage: None,
            unreadable,
            encrypted,
            warnings: directory.warnings(),
        })
    }
}
