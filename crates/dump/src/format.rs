//! The formats of a dump and its outputs.

use std::fmt;
use std::path::{Path, PathBuf};

use bigiron_format::codec::{Codec, Compression};

use crate::encryption::Recipients;
use crate::output::NamedTaker;

/// Default size of a vmdump's chunk, in bytes of memory.
pub const DEFAULT_CHUNK_BYTES: u32 = 256 << 10;

/// A dump format with its compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// kdump-compressed. A stream (standard output, encrypted output) is always flattened.
    Kdump {
        /// Compression of pages.
        compression: PageCompression,
        /// Writes records of the flattened format, even to a file.
        flattened: bool,
    },
    /// ELF core.
    Elf {
        /// Writes records of the flattened format.
        flattened: bool,
    },
    /// ELF core in compressed chunks.
    Vmdump(ChunkCompression),
}

impl Format {
    /// Uncompressed ELF core.
    pub const ELF: Self = Self::Elf { flattened: false };

    /// kdump-compressed, flattened only if it goes to a stream.
    pub fn kdump(compression: impl Into<PageCompression>) -> Self {
        Self::Kdump {
            compression: compression.into(),
            flattened: false,
        }
    }

    /// Name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kdump { flattened, .. } if *flattened => "flattened",
            Self::Kdump { .. } => "kdump",
            Self::Elf { flattened: true } => "flattened elf",
            Self::Elf { flattened: false } => "elf",
            Self::Vmdump(_) => "vmdump",
        }
    }

    /// Name of the compression as on the command line; `None` for a format without one.
    pub fn compression(&self) -> Option<String> {
        match self {
            Self::Kdump { compression, .. } => Some(compression.to_string()),
            Self::Vmdump(compression) => Some(compression.to_string()),
            Self::Elf { .. } => None,
        }
    }

    /// True if the dump is always a stream of records of the flattened format, whatever its
    /// output.
    pub fn is_flattened(&self) -> bool {
        matches!(
            self,
            Self::Kdump {
                flattened: true,
                ..
            } | Self::Elf { flattened: true }
        )
    }
}

impl Default for Format {
    /// kdump-compressed with zstd.
    fn default() -> Self {
        Self::kdump(Compression::new(Codec::Zstd))
    }
}

/// Compression of the pages of a kdump-compressed dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCompression {
    /// The same for all pages.
    Fixed(Compression),
    /// As fast or as strong as needed to keep both processors and disk busy.
    Adaptive,
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
        }
    }
}

/// Compression of the chunks of a vmdump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkCompression {
    /// zstd.
    Zstd(ZstdChunks),
    /// bzip2 at its only useful level, the highest; a chunk is one block.
    Bzip2,
}

impl fmt::Display for ChunkCompression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zstd(chunks) => Compression {
                codec: Codec::Zstd,
                level: chunks.level,
            }
            .fmt(f),
            Self::Bzip2 => f.pad("bzip2"),
        }
    }
}

/// Chunks compressed with zstd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZstdChunks {
    /// Level of zstd.
    pub level: i32,
    /// Bytes of memory in a chunk.
    pub bytes: u32,
}

impl Default for ZstdChunks {
    fn default() -> Self {
        Self {
            level: Compression::new(Codec::Zstd).level,
            bytes: DEFAULT_CHUNK_BYTES,
        }
    }
}

/// Output of one part of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputTarget {
    /// A file, created under a temporary name, or a character device.
    File(PathBuf),
    /// A raw dump device, or a file used as one: the dump between two blocks that describe it.
    Device(PathBuf),
    /// Standard output.
    Stdout,
    /// A stream to a place of the caller's.
    Taker(NamedTaker),
    /// No output: everything is done except writing.
    Nowhere,
}

impl OutputTarget {
    /// Returns the path of a file or device, or the name of another place.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::Device(path) => Some(path),
            Self::Taker(taker) => Some(taker.name()),
            Self::Stdout | Self::Nowhere => None,
        }
    }

    /// True if bytes are written in order only.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stdout | Self::Taker(_))
    }

    /// Name in messages.
    pub(crate) fn name(&self) -> &Path {
        match self {
            Self::File(path) | Self::Device(path) => path,
            Self::Taker(taker) => taker.name(),
            Self::Stdout => Path::new("(standard output)"),
            Self::Nowhere => Path::new("(nowhere)"),
        }
    }
}

/// Format and outputs of a dump.
#[derive(Clone, Debug)]
pub enum DumpOutput {
    /// A dump in one part.
    Whole {
        /// The format.
        format: Format,
        /// The output.
        target: OutputTarget,
        /// Keys for which the dump is encrypted; it is then written as a stream.
        recipients: Option<Recipients>,
    },
    /// A kdump-compressed dump split into files, each with all bitmaps and about the same number
    /// of pages.
    Split {
        /// Compression of pages.
        compression: PageCompression,
        /// Parts begin at multiples of this number of page frames.
        granule: u64,
        /// The parts.
        files: Vec<PathBuf>,
    },
    /// A vmdump whose chunks go to files and devices in turn. (Chunks are zstd: the position of
    /// a bzip2 stream is unknown once the end of its file is lost.)
    Striped {
        /// Compression of chunks.
        chunks: ZstdChunks,
        /// The parts.
        targets: Vec<OutputTarget>,
        /// Keys for which each part is encrypted.
        recipients: Option<Recipients>,
    },
}

impl DumpOutput {
    /// An unencrypted dump in one part.
    pub fn whole(format: Format, target: OutputTarget) -> Self {
        Self::Whole {
            format,
            target,
            recipients: None,
        }
    }

    /// An unencrypted dump in one file.
    pub fn file(format: Format, path: impl Into<PathBuf>) -> Self {
        Self::whole(format, OutputTarget::File(path.into()))
    }

    /// Returns the format of all parts.
    pub fn format(&self) -> Format {
        match self {
            Self::Whole { format, .. } => *format,
            Self::Split { compression, .. } => Format::kdump(*compression),
            Self::Striped { chunks, .. } => Format::Vmdump(ChunkCompression::Zstd(*chunks)),
        }
    }

    /// Returns the target of each part.
    pub fn targets(&self) -> Vec<OutputTarget> {
        match self {
            Self::Whole { target, .. } => vec![target.clone()],
            Self::Split { files, .. } => files.iter().cloned().map(OutputTarget::File).collect(),
            Self::Striped { targets, .. } => targets.clone(),
        }
    }

    /// True if the dump is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.recipients().is_some()
    }

    /// Returns the keys for which the dump is encrypted.
    pub(crate) fn recipients(&self) -> Option<&Recipients> {
        match self {
            Self::Whole { recipients, .. } | Self::Striped { recipients, .. } => {
                recipients.as_ref()
            }
            Self::Split { .. } => None,
        }
    }
}
