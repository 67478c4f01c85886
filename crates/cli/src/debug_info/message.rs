//! What the two processes say to each other, and how the other one is started.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Leading arguments of the process that finds debug information.
pub const HELPER: [&str; 2] = ["debug-info", "helper"];
/// The argument that lets it ask servers. Others are absolute paths.
pub const ASK_SERVERS: &str = "--debuginfod";
/// Maximum size of a message. A path has at most 4 KiB, and an error names a few.
pub const MAX_MESSAGE: usize = 32 << 10;

/// The answer to a [`bigiron_debuginfo::Wanted`]; a file comes with it.
#[derive(Serialize, Deserialize)]
pub enum Answer {
    /// The name of the file.
    Found(PathBuf),
    /// Why there is none.
    Missing(String),
}
