//! Where the parts of a kdump-compressed file stand.

use super::descriptor::DESCRIPTOR_SIZE;
use super::header::SUB_HEADER_SIZE;

/// The places of a file's parts, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The block size, which is the page size.
    pub block_size: u64,
    /// Blocks that the sub-header and the notes take.
    pub sub_header_blocks: u64,
    /// Bytes of one bitmap, a multiple of the block size.
    pub bitmap_size: u64,
}

impl Layout {
    /// The places for `notes_size` bytes of notes and page frames below `end_frame`.
    pub fn new(block_size: u64, notes_size: u64, end_frame: u64) -> Self {
        let bits_per_block = block_size * 8;
        Self {
            block_size,
            sub_header_blocks: (SUB_HEADER_SIZE as u64 + notes_size).div_ceil(block_size),
            bitmap_size: end_frame.div_ceil(bits_per_block) * block_size,
        }
    }

    /// Where the sub-header begins.
    pub fn sub_header(&self) -> u64 {
        self.block_size
    }

    /// Where the notes begin.
    pub fn notes(&self) -> u64 {
        self.block_size + SUB_HEADER_SIZE as u64
    }

    /// Where the first bitmap begins: the page frame is RAM.
    pub fn ram_bitmap(&self) -> u64 {
        (1 + self.sub_header_blocks) * self.block_size
    }

    /// Where the second bitmap begins: the page is dumped.
    pub fn dumped_bitmap(&self) -> u64 {
        self.ram_bitmap() + self.bitmap_size
    }

    /// Where the page descriptors begin.
    pub fn descriptors(&self) -> u64 {
        self.dumped_bitmap() + self.bitmap_size
    }

    /// Where the descriptor of the `index`-th dumped page is.
    pub fn descriptor(&self, index: u64) -> u64 {
        self.descriptors() + index * DESCRIPTOR_SIZE as u64
    }
}
