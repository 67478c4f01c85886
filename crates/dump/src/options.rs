//! What to make.

use std::fmt;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bigiron_format::codec::{Codec, CodecError, Compression};
use bigiron_helpers::{MemoryBudget, processor_count};
use bigiron_kernel::{DumpLevel, IoMethod};

use crate::encryption::Recipients;

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// kdump-compressed.
    Kdump,
    /// kdump-compressed, as a stream of records for a pipe.
    Flattened,
    /// ELF core.
    Elf,
    /// ELF core, as a stream of records for a pipe.
    FlattenedElf,
    /// ELF core in compressed chunks, to a file or a pipe.
    Vmdump,
}

impl OutputFormat {
    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kdump => "kdump",
            Self::Flattened => "flattened",
            Self::Elf => "elf",
            Self::FlattenedElf => "flattened elf",
            Self::Vmdump => "vmdump",
        }
    }

    /// Whether it is kdump-compressed, as a file or as a stream.
    pub fn is_kdump(self) -> bool {
        matches!(self, Self::Kdump | Self::Flattened)
    }

    /// Whether it is an uncompressed ELF core, in records or not.
    pub fn is_elf(self) -> bool {
        matches!(self, Self::Elf | Self::FlattenedElf)
    }
}

/// Where the output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputTarget {
    /// A file, made under a temporary name, or a device.
    File(PathBuf),
    /// A raw dump device, or a file as if it were one: the dump between two
    /// blocks that say what it is.
    Device(PathBuf),
    /// Standard output.
    Stdout,
    /// Nowhere: everything is done but the writing.
    Nowhere,
}

impl OutputTarget {
    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::Device(path) => Some(path),
            Self::Stdout | Self::Nowhere => None,
        }
    }
}

/// How pages are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCompression {
    /// All in the same way.
    Fixed(Compression),
    /// As fast or as strong as keeps both processors and disk busy.
    Adaptive,
    /// By bzip2, which only a vmdump can have.
    Bzip2,
}

impl From<Compression> for PageCompression {
    fn from(compression: Compression) -> Self {
        Self::Fixed(compression)
    }
}

impl fmt::Display for PageCompression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(compression) => compression.fmt(f),
            Self::Adaptive => f.pad("adaptive"),
            Self::Bzip2 => f.pad("bzip2"),
        }
    }
}

impl FromStr for PageCompression {
    type Err = CodecError;

    fn from_str(text: &str) -> Result<Self, CodecError> {
        match text {
            "adaptive" => Ok(Self::Adaptive),
            "bzip2" => Ok(Self::Bzip2),
            _ => text.parse().map(Self::Fixed),
        }
    }
}

/// What makes a dump faster or smaller and can be left out, to measure what it
/// brings and to show that it changes nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Optimizations {
    /// Equal pages are compressed and stored once.
    pub equal_pages: bool,
    /// After an incompressible page, the next is looked at before it goes to
    /// the codec.
    pub incompressible: bool,
    /// Struct pages are decided about in blocks of 64.
    pub scan_blocks: bool,
}

impl Optimizations {
    /// None of them.
    pub const NONE: Self = Self {
        equal_pages: false,
        incompressible: false,
        scan_blocks: false,
    };
}

impl Default for Optimizations {
    fn default() -> Self {
        Self {
            equal_pages: true,
            incompressible: true,
            scan_blocks: true,
        }
    }
}

/// How to make a dump.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// Which pages are left out.
    pub level: DumpLevel,
    /// The format.
    pub format: OutputFormat,
    /// How pages are compressed; not used for ELF.
    pub compression: PageCompression,
    /// Helper threads at most.
    pub threads: usize,
    /// What they may take together.
    pub memory: MemoryBudget,
    /// How the source is read.
    pub io: IoMethod,
    /// Replace an output file that is there already.
    pub overwrite: bool,
    /// Write to a raw dump device even if there is a file system or the like on
    /// it.
    pub overwrite_device: bool,
    /// Who can read the dump; everybody if nobody is named. It is then written
    /// in order, as to a pipe.
    pub encrypt: Option<Recipients>,
    /// Bytes a second that are written at most.
    pub write_limit: Option<NonZeroU64>,
    /// Bytes that a file may have at most; a dump that needs more fails.
    pub size_limit: Option<NonZeroU64>,
    /// Remove what was written if the output is full, instead of keeping it:
    /// the caller tries again with less.
    pub discard_if_full: bool,
    /// What may be left out.
    pub optimizations: Optimizations,
    /// Bytes of memory in a chunk of a vmdump.
    pub chunk_bytes: u32,
    /// Who a vmdump is, in place of the time and a random number: for tests.
    pub identity: Option<DumpIdentity>,
}

/// What tells one dump from another of the same source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpIdentity {
    /// When it began, in seconds since 1970.
    pub time: u64,
    /// A number that no other dump has.
    pub id: [u8; 16],
}

impl Default for DumpOptions {
    /// What `bigiron dump` does without options, with a helper for each
    /// processor and a part of the memory that is free now.
    fn default() -> Self {
        Self {
            level: DumpLevel::MAX,
            format: OutputFormat::Kdump,
            compression: Compression::new(Codec::Zstd).into(),
            threads: processor_count(),
            memory: MemoryBudget::from_free_memory(),
            io: IoMethod::Auto,
            overwrite: false,
            encrypt: None,
            overwrite_device: false,
            write_limit: None,
            size_limit: None,
            discard_if_full: false,
            optimizations: Optimizations::default(),
            chunk_bytes: crate::vmdump::DEFAULT_CHUNK,
            identity: None,
        }
    }
}
