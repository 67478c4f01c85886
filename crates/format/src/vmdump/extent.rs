//! Extents of a vmdump and of its core.

/// An extent of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Offset.
    pub offset: u64,
    /// Size, in bytes.
    pub size: u64,
}

/// A range of the core that is missing in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// First byte in the core.
    pub start: u64,
    /// The byte after the last, in the core.
    pub end: u64,
}

/// Number of chunks in a group if there is no index.
pub(super) const GROUP_CHUNKS: u32 = 1024;

/// Chunks that are located together: those of one index record, or as many without an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkGroup {
    /// Position of its first chunk in the core.
    pub(super) position: u64,
    /// Extent of its chunks in the file.
    pub(super) chunks: Extent,
    /// Extent of its index record.
    pub(super) record: Option<Extent>,
}
