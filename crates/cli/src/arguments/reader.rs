//! Options of all commands that read a dump: what an untrusted dump can cost.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::memory_limit::{self, ReadBuffers};
use crate::sandbox::{self, Needs};
use crate::size;
use crate::source::Files;
use crate::timeout;

/// The option of commands that read a dump, also of those that write.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct TimeoutArguments {
    /// End after this many seconds, with exit status 124 [default: no limit]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<NonZeroU32>,
}

impl TimeoutArguments {
    /// Starts the time of a command that is about to open `paths`.
    ///
    /// # Errors
    ///
    /// The signal of the deadline cannot be caught.
    pub fn begin(self, paths: &[PathBuf]) -> anyhow::Result<()> {
        let name = paths.first().map(PathBuf::as_path);
        timeout::begin(
            self.timeout,
            &name.unwrap_or(Path::new("-")).display().to_string(),
        )
    }
}

/// The options of commands that only read a dump.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ReaderArguments {
    /// The time limit.
    #[command(flatten)]
    pub time: TimeoutArguments,
    /// Do not confine the process while it reads the dump
    #[arg(long)]
    pub no_sandbox: bool,
    /// Maximum memory, such as 2G [default: the size of the dump, and about 500M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub memory_limit: Option<u64>,
    /// True for a command that writes as well: it is neither confined nor ended at a limit of
    /// memory, which would cost its output.
    #[arg(skip)]
    writes: bool,
}

impl ReaderArguments {
    /// Options of a command that writes as well, and reads what it has written.
    pub const WRITER: Self = Self {
        time: TimeoutArguments { timeout: None },
        no_sandbox: true,
        memory_limit: None,
        writes: true,
    };

    /// Confines the process, except for its `needs`, and limits its memory: call this with all
    /// dumps that it reads open, and before anything in them is read. The running kernel is not
    /// an untrusted dump, and its readers open more files.
    pub fn confine(self, dumps: &[&Files], needs: &Needs<'_>, buffers: ReadBuffers) {
        timeout::opened();
        if self.writes {
            return;
        }
        memory_limit::limit_reading(self.memory_limit, buffers);
        if !self.no_sandbox && !dumps.iter().any(|dump| dump.is_live()) {
            #[cfg(feature = "objects")]
            crate::objects::forget_secrets();
            sandbox::enter(needs);
        }
    }
}
