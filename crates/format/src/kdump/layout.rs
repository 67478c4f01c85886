//! The layout of a kdump-compressed file.

use super::descriptor::DESCRIPTOR_SIZE;

/// Size of the sub-header; the notes follow it.
pub const SUB_HEADER_SIZE: usize = 104;

/// Offsets in the file, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Block size, which is the page size.
    pub block_size: u64,
    /// Number of blocks of the sub-header and the notes.
    pub sub_header_blocks: u64,
    /// Size of one bitmap in bytes, a multiple of the block size.
    pub bitmap_size: u64,
}

impl Layout {
    /// Computes the layout for `notes_size` bytes of notes and page frames below `end_frame`.
    pub fn new(block_size: u64, notes_size: u64, end_frame: u64) -> Self {
        let bits_per_block = block_size * 8;
        Self {
            block_size,
            sub_header_blocks: (SUB_HEADER_SIZE as u64 + notes_size).div_ceil(block_size),
            bitmap_size: end_frame.div_ceil(bits_per_block) * block_size,
        }
    }

    /// Offset of the sub-header.
    pub fn sub_header(&self) -> u64 {
        self.block_size
    }

    /// Offset of the notes.
    pub fn notes(&self) -> u64 {
        self.block_size + SUB_HEADER_SIZE as u64
    }

    /// Offset of the RAM bitmap (first bitmap).
    pub fn ram_bitmap(&self) -> u64 {
        (1 + self.sub_header_blocks) * self.block_size
    }

    /// Offset of the dumped bitmap (second bitmap).
    pub fn dumped_bitmap(&self) -> u64 {
        self.ram_bitmap() + self.bitmap_size
    }

    /// Offset of the page descriptors.
    pub fn descriptors(&self) -> u64 {
        self.dumped_bitmap() + self.bitmap_size
    }

    /// Offset of the descriptor of the `index`-th dumped page.
    pub fn descriptor(&self, index: u64) -> u64 {
        self.descriptors() + index * DESCRIPTOR_SIZE as u64
    }
}
