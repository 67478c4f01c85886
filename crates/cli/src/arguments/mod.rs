//! Arguments that several commands share.

mod compression;
mod dump_options;
mod format;
#[cfg(feature = "memory")]
pub mod memory;
mod outputs;
mod reader;

use std::path::PathBuf;

use bigiron_helpers::processor_count;
use bigiron_kernel::{IoMethod, PhysicalMemory};
use clap::{Args, ValueEnum};

#[cfg(feature = "inspect")]
use crate::size;

pub use dump_options::{DumpArguments, DumpOptionArgs, LiveArguments, OnlineCpus};
pub use reader::{ReaderArguments, TimeoutArguments};

/// Options of commands that read a source at random.
#[derive(Clone, Debug, Args)]
#[cfg_attr(not(feature = "inspect"), derive(Default))]
pub struct SourceArguments {
    /// Options for reading the source.
    #[command(flatten)]
    pub input: InputArguments,
    /// What an untrusted source can cost.
    #[command(flatten)]
    pub reader: ReaderArguments,
    /// Size of the cache of decompressed pages; 0 disables it
    #[cfg(feature = "inspect")]
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size::parse_or_zero)]
    pub cache: u64,
}

#[cfg(feature = "inspect")]
impl Default for SourceArguments {
    fn default() -> Self {
        Self {
            input: InputArguments::default(),
            reader: ReaderArguments::default(),
            cache: bigiron_kernel::Source::DEFAULT_CACHE,
        }
    }
}

/// The word for a raw image of one range, in place of a memory map's file.
pub const FLAT: &str = "flat";

/// Options for reading a source.
#[derive(Clone, Debug, Args)]
pub struct InputArguments {
    /// Use the VMCOREINFO in this text file instead of the source's
    #[arg(long, value_name = "FILE")]
    pub vmcoreinfo: Option<PathBuf>,
    /// Read the source as a raw image of memory, whose ranges of addresses are the lines of this
    /// file in the form of /proc/iomem, or `flat`: one range from address 0 on
    #[arg(long, value_name = "FILE")]
    pub memory_map: Option<PathBuf>,
    /// Read the memory of one domain of a Xen host, as that of a machine of its own: 0, dom0
    #[arg(long, value_name = "ID")]
    pub domain: Option<u16>,
    /// File with age secret keys, in the format of age-keygen, for an encrypted source
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// I/O method for the source: by default mmap for /proc/vmcore, and read for other files
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    pub io: Io,
    /// Number of source pages cached for address translation; 0 disables the cache
    #[arg(long, value_name = "N", default_value_t = PhysicalMemory::DEFAULT_CACHE_PAGES as u32)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    pub cache_pages: u32,
}

impl Default for InputArguments {
    fn default() -> Self {
        Self {
            vmcoreinfo: None,
            memory_map: None,
            domain: None,
            identity: None,
            io: Io::Auto,
            cache_pages: PhysicalMemory::DEFAULT_CACHE_PAGES as u32,
        }
    }
}

/// The I/O method on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Io {
    /// Choose by the kind of source
    Auto,
    /// Map the file
    Mmap,
    /// Read the file
    Read,
}

impl From<Io> for IoMethod {
    fn from(io: Io) -> Self {
        match io {
            Io::Auto => Self::Auto,
            Io::Mmap => Self::Mmap,
            Io::Read => Self::Read,
        }
    }
}

/// Returns the number of helper threads.
pub fn threads(wanted: Option<u16>) -> usize {
    wanted.map_or_else(processor_count, usize::from)
}
