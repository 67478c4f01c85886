//! QEMU's migration stream in a file, as `migrate "exec:cat >FILE"` and `virsh save` write it
//! (QEMU's migration/savevm.c and migration/ram.c). The RAM of the guest is in it, page by page;
//! a page that the guest changed meanwhile is in it several times, and the last one counts.
//!
//! docs/formats/migration.md has the layout.

mod cursor;
mod file;
mod libvirt;
mod place;
mod ram;
mod runs;
mod stream;

pub use file::{MigrationFile, NotRead};

use crate::bytes::{Endian, ReadAt};

/// Magic number of a stream, "QEVM", and its version.
const MAGIC: u32 = 0x5145_564d;
const VERSION: u32 = 3;
/// Maximum number of RAM blocks.
const MAX_BLOCKS: usize = 1024;

/// Returns true if a file with these first bytes is a stream, or a save image of libvirt.
pub fn is_migration(front: &[u8]) -> bool {
    libvirt::is_save_image(front) || Endian::Big.u32(front, 0) == Some(MAGIC)
}

/// Returns the kind of a file with these first bytes, for messages.
pub fn kind_of(front: &[u8]) -> &'static str {
    match libvirt::is_save_image(front) {
        true => "libvirt save image",
        false => "QEMU migration stream",
    }
}

/// A block of the guest's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    name: String,
    /// Number of its first page among those of all blocks.
    first_page: u64,
    /// Number of pages.
    pages: u64,
}

/// What a stream holds.
struct Contents {
    /// Name of the machine type, with its version.
    machine: String,
    /// log2 of the size of a page of the stream.
    page_shift: u32,
    blocks: Vec<Block>,
    runs: runs::Runs,
    /// Describes what is missing at the end.
    damage: Option<String>,
}

/// Checks whether a file begins as a stream at `offset`.
fn begins_at(file: &dyn ReadAt, offset: u64) -> bool {
    let mut front = [0; 8];
    file.read_exact_at("the header", offset, &mut front).is_ok()
        && Endian::Big.u32(&front, 0) == Some(MAGIC)
}
