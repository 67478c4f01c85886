//! The rights that a confined command keeps.

use std::path::Path;

/// An operation that a confined command must still be able to do.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(
    not(feature = "sandbox"),
    expect(dead_code, reason = "nothing is denied without the sandbox")
)]
pub enum Needs<'a> {
    /// Reading what is open, and printing.
    #[default]
    Nothing,
    /// Finishing this file, which is already open under a temporary name: a rename in its
    /// directory remains possible.
    Output(&'a Path),
    /// Serving FUSE requests: /dev/fuse can be opened, once for each thread.
    #[cfg(feature = "mount")]
    Fuse,
    /// Connecting to servers, and reading these files, or those in these directories.
    #[cfg(feature = "objects")]
    Network(&'a [std::path::PathBuf]),
    /// Reading the files in these directories. If it may keep what servers send in a directory,
    /// connecting to them, and writing there.
    #[cfg(feature = "inspect")]
    DebugInfo {
        /// What is read.
        reads: &'a [std::path::PathBuf],
        /// What is written.
        keeps: Option<&'a Path>,
    },
}

#[cfg(feature = "sandbox")]
impl Needs<'_> {
    /// The file to be finished.
    pub(super) fn output(&self) -> Option<&Path> {
        match self {
            Self::Output(path) => Some(path),
            _ => None,
        }
    }

    /// True if FUSE requests are served.
    pub(super) fn has_fuse(&self) -> bool {
        #[cfg(feature = "mount")]
        return matches!(self, Self::Fuse);
        #[cfg(not(feature = "mount"))]
        false
    }

    /// The files and directories that are read.
    pub(super) fn reads(&self) -> &[std::path::PathBuf] {
        match self {
            #[cfg(feature = "objects")]
            Self::Network(files) => files,
            #[cfg(feature = "inspect")]
            Self::DebugInfo { reads, .. } => reads,
            _ => &[],
        }
    }

    /// The directory that is written to.
    pub(super) fn keeps(&self) -> Option<&Path> {
        match self {
            #[cfg(feature = "inspect")]
            Self::DebugInfo { keeps, .. } => *keeps,
            _ => None,
        }
    }

    /// True if servers are connected to.
    pub(super) fn has_network(&self) -> bool {
        match self {
            #[cfg(feature = "objects")]
            Self::Network(_) => true,
            _ => self.keeps().is_some(),
        }
    }
}
