//! What to make.

use std::path::PathBuf;

use bigiron_format::codec::Compression;
use bigiron_helpers::MemoryBudget;
use bigiron_kernel::{DumpLevel, IoMethod};

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// kdump-compressed.
    Kdump,
    /// kdump-compressed, as a stream of records for a pipe.
    Flattened,
    /// ELF core.
    Elf,
}

impl OutputFormat {
    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kdump => "kdump",
            Self::Flattened => "flattened",
            Self::Elf => "elf",
        }
    }
}

/// Where the output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputTarget {
    /// A file, made under a temporary name, or a device.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

/// How to make a dump.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// Which pages are left out.
    pub level: DumpLevel,
    /// The format.
    pub format: OutputFormat,
    /// How pages are compressed; not used for ELF.
    pub compression: Compression,
    /// Helper threads at most.
    pub threads: usize,
    /// What they may take together.
    pub memory: MemoryBudget,
    /// How the source is read.
    pub io: IoMethod,
    /// Replace an output file that is there already.
    pub overwrite: bool,
}
