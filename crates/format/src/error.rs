//! What can be wrong with a dump file.

use std::io;

/// A dump file could not be read or does not hold what its format asks for.
///
/// Offsets are byte offsets in the file. The file's name is added by whoever
/// opened it.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Reading failed.
    #[error("cannot read {what} at offset {offset:#x}: {source}")]
    Io {
        /// What was being read.
        what: &'static str,
        /// Where.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The file ends before something that its headers promise.
    #[error(
        "the file ends at {size:#x}, inside {what} ({needed} bytes at offset {offset:#x}): it is truncated"
    )]
    Truncated {
        /// What is cut off.
        what: &'static str,
        /// Where it begins.
        offset: u64,
        /// How many bytes it takes.
        needed: u64,
        /// The size of the file.
        size: u64,
    },
    /// The file is of another kind.
    #[error("{what} at offset {offset:#x}: expected {expected}, found {found}")]
    Unexpected {
        /// The field.
        what: &'static str,
        /// Where it is.
        offset: u64,
        /// What a good file has there.
        expected: String,
        /// What this file has there.
        found: String,
    },
    /// Compressed data does not decompress.
    #[error("{codec} data at offset {offset:#x} is damaged: {reason}")]
    Codec {
        /// The codec by name.
        codec: &'static str,
        /// Where the compressed data begins.
        offset: u64,
        /// What the decoder says.
        reason: String,
    },
}

impl FormatError {
    /// A field that holds something else than the format allows.
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
}
