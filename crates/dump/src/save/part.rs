//! A part of a split dump.

use bigiron_format::kdump::{KdumpHeaders, LostBits};
use bigiron_kernel::source::DumpFile;

/// A part, and its place in the joined dump.
pub struct Part {
    /// The file.
    pub file: DumpFile,
    /// Its headers.
    pub headers: KdumpHeaders,
    /// The bits that its descriptors need where no part returns the dumped bitmap.
    pub lost_bits: LostBits,
    /// Index of its first descriptor in the joined dump, and their number.
    pub first: u64,
    pub count: u64,
    /// Offset of its data in the part, and in the joined dump.
    pub data: u64,
    pub to: u64,
}
