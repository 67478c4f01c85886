//! The result of a save.

use std::path::PathBuf;

use bigiron_format::device::DumpId;

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
    /// True if the copy is still encrypted, so that its contents are unknown.
    pub encrypted: bool,
}

impl Saved {
    /// Describes a dump that an earlier run saved.
    pub(super) fn before(
        id: DumpId,
        number: u64,
        path: PathBuf,
        encrypted: bool,
    ) -> Result<Self, DumpError> {
        let error = DumpError::output(&path, "look at it", "");
        let metadata = std::fs::metadata(&path).map_err(error)?;
        Ok(Self {
            id,
            number,
            path,
            before: true,
            bytes: metadata.len(),
            copied: 0,
            damage: None,
            encrypted,
        })
    }
}
