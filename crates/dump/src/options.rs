//! Options of a dump, whatever its format and output.

use std::num::NonZeroU64;

use bigiron_helpers::{MemoryBudget, processor_count};
use bigiron_kernel::xen::Owners;
use bigiron_kernel::{DumpLevel, IoMethod};

#[cfg(feature = "sample")]
use crate::sample::Sample;

/// Optimizations that can be switched off, to measure the savings of each and to show that none
/// changes the dump's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Optimizations {
    /// Compresses and stores equal pages once.
    pub equal_pages: bool,
    /// After an incompressible page, estimates the next one's entropy before it goes to the
    /// codec.
    pub incompressible: bool,
    /// Classifies struct pages in blocks of 64.
    pub scan_blocks: bool,
    /// Writes to disks past the page cache where memory is scarce.
    pub direct_writes: bool,
}

impl Optimizations {
    /// All optimizations switched off.
    pub const NONE: Self = Self {
        equal_pages: false,
        incompressible: false,
        scan_blocks: false,
        direct_writes: false,
    };
}

impl Default for Optimizations {
    fn default() -> Self {
        Self {
            equal_pages: true,
            incompressible: true,
            scan_blocks: true,
            direct_writes: true,
        }
    }
}

/// Treatment of a dump that is on a dump device and was not saved yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unsaved {
    /// It stays, and the new dump is refused.
    #[default]
    Kept,
    /// The new dump replaces it.
    Replaced,
    /// It stays, and the new dump is written behind it if there is room.
    Followed,
}

/// Options of a dump, whatever its format and output.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// Classes of pages that are excluded.
    pub level: DumpLevel,
    /// Whose page frames of a Xen host are dumped.
    pub owners: Owners,
    /// Leaves out pages of the memory map whose struct pages all belong to page frames that are
    /// not dumped.
    pub without_struct_pages: bool,
    /// Maximum number of helper threads.
    pub threads: usize,
    /// Memory that the helpers may use together.
    pub memory: MemoryBudget,
    /// Method of reading the source.
    pub io: IoMethod,
    /// Replaces existing output files.
    pub overwrite: bool,
    /// Writes to a raw dump device even if it holds a file system or other foreign data.
    pub overwrite_device: bool,
    /// The source is memory of the machine that this program runs on, as in a capture kernel: a
    /// dump device that is in that memory is refused.
    pub source_is_here: bool,
    /// Treatment of an unsaved dump on a raw dump device.
    pub unsaved: Unsaved,
    /// Maximum number of bytes written to each part per second.
    pub write_limit: Option<NonZeroU64>,
    /// Maximum size of a file in bytes; a dump that needs more fails.
    pub size_limit: Option<NonZeroU64>,
    /// Removes what was written if the output is full, instead of keeping it: the caller retries
    /// with a smaller dump.
    pub discard_if_full: bool,
    /// Gives the final name also to a file that a failed or interrupted dump leaves.
    pub names_incomplete: bool,
    /// Optimizations in use.
    pub optimizations: Optimizations,
    /// The kept pages that are copied, for an estimate; `None` copies all. Pages are counted in
    /// the sections that the sample has.
    #[cfg(feature = "sample")]
    pub sample: Option<Sample>,
    /// Identity of a vmdump, instead of the time and a random number; for tests.
    pub identity: Option<DumpIdentity>,
}

/// Properties that distinguish dumps of the same source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpIdentity {
    /// Start of the dump, in seconds since 1970.
    pub time: u64,
    /// Unique number.
    pub id: [u8; 16],
}

impl Default for DumpOptions {
    /// The options of `bigiron dump` without arguments: a helper for each processor, and a share
    /// of the memory that is free now.
    fn default() -> Self {
        Self {
            level: DumpLevel::MAX,
            owners: Owners::ALL,
            without_struct_pages: false,
            threads: processor_count(),
            memory: MemoryBudget::from_free_memory(),
            io: IoMethod::Auto,
            overwrite: false,
            overwrite_device: false,
            source_is_here: false,
            unsaved: Unsaved::default(),
            write_limit: None,
            size_limit: None,
            discard_if_full: false,
            names_incomplete: false,
            optimizations: Optimizations::default(),
            #[cfg(feature = "sample")]
            sample: None,
            identity: None,
        }
    }
}
