//! Errors of dump files.

use std::io;

use crate::memory_limit::{self, MemoryLimitExceeded};

/// A dump file could not be read or violates its format.
///
/// Offsets are byte offsets in the file. The owner of the file adds its name.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Reading failed.
    #[error("cannot read {what} at offset {offset:#x}: {cause}")]
    Io {
        /// The item that was being read.
        what: &'static str,
        /// Its offset.
        offset: u64,
        /// The I/O error.
        cause: io::Error,
    },
    /// The file ends before an item that its headers promise.
    #[error(
        "the file ends at {size:#x}, inside {what} ({needed} bytes at offset {offset:#x}): it is truncated"
    )]
    Truncated {
        /// The truncated item.
        what: &'static str,
        /// Its offset.
        offset: u64,
        /// Its size, in bytes.
        needed: u64,
        /// Size of the file.
        size: u64,
    },
    /// A field has an invalid value.
    #[error("{what} at offset {offset:#x}: expected {expected}, found {found}")]
    Unexpected {
        /// The field.
        what: &'static str,
        /// Its offset.
        offset: u64,
        /// The valid values.
        expected: String,
        /// The value found.
        found: String,
    },
    /// An item needs more memory than the limit allows.
    #[error("at offset {offset:#x}: {cause}")]
    Memory {
        /// Offset of the item.
        offset: u64,
        /// The item, its size and the limit.
        cause: MemoryLimitExceeded,
    },
    /// Compressed data cannot be decompressed.
    #[error("{codec} data at offset {offset:#x} is damaged: {reason}")]
    Codec {
        /// Name of the codec.
        codec: &'static str,
        /// Offset of the compressed data.
        offset: u64,
        /// The decoder's reason.
        reason: String,
    },
}

impl FormatError {
    /// Creates the error for a field with an invalid value.
    pub fn unexpected(
        what: &'static str,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Unexpected {
            what,
            offset,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Returns the same error once more, for a reader that remembers what failed.
    pub fn again(&self) -> Self {
        match self {
            Self::Io {
                what,
                offset,
                cause,
            } => Self::Io {
                what,
                offset: *offset,
                cause: cause
                    .raw_os_error()
                    .map_or_else(|| cause.kind().into(), io::Error::from_raw_os_error),
            },
            Self::Truncated {
                what,
                offset,
                needed,
                size,
            } => Self::Truncated {
                what,
                offset: *offset,
                needed: *needed,
                size: *size,
            },
            Self::Unexpected {
                what,
                offset,
                expected,
                found,
            } => Self::unexpected(what, *offset, expected, found),
            Self::Memory { offset, cause } => Self::Memory {
                offset: *offset,
                cause: cause.clone(),
            },
            Self::Codec {
                codec,
                offset,
                reason,
            } => Self::Codec {
                codec,
                offset: *offset,
                reason: reason.clone(),
            },
        }
    }

    /// Returns an error if `what`, described at `offset`, would exceed the memory limit with
    /// `bytes` in memory.
    pub fn check_memory(what: &'static str, offset: u64, bytes: u64) -> Result<(), Self> {
        memory_limit::check(what, bytes).map_err(|cause| Self::Memory { offset, cause })
    }
}
