//! vmdump: an ELF core in independent zstd frames or bzip2 streams, with an index
//! (docs/formats/vmdump.md).

pub mod check;
pub mod chunk;
pub mod codec;
mod core_order;
mod extent;
pub mod file;
mod find_root;
pub mod header;
pub mod index;
mod read;
pub mod record;
pub mod root;
mod scan;
pub mod seek_table;
pub mod streams;
pub mod walk;
pub mod zeros;

pub use chunk::{Chunk, ChunkHeader, ChunkKind, MAX_RUN};
pub use codec::{ChunkCompressor, ChunkDecompressor};
pub use core_order::{CoreOrder, Stretch};
pub use extent::{Extent, Gap};
pub use file::VmdumpFile;
pub use header::{Container, MAX_CHUNK_BYTES, VmdumpHeader};
pub use index::DirectoryEntry;
pub use record::{OVERHEAD, Record, Tag};
pub use root::{ROOT_SIZE, Root};
pub use seek_table::SeekTable;
pub use streams::container_of;

use crate::bytes::ReadAt;

/// Returns true if `file` ends as a vmdump in the zstd container, whatever its first bytes are.
pub fn ends_as_vmdump(file: &(impl ReadAt + ?Sized)) -> bool {
    let root = find_root::find_root(file, Container::Zstd);
    root.is_ok_and(|root| root.is_some())
}

/// Returns true if a file that starts with `front`, 16 bytes, may be a vmdump.
pub fn is_vmdump(front: &[u8]) -> bool {
    container_of(front).is_some()
}
