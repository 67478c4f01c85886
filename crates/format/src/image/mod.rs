//! Memory images: memory without headers that describe its machine. Raw copies of memory, with a
//! memory map or from address 0 on, LiME's format and AVML's compressed one.
//!
//! docs/formats/images.md has the layouts.

mod avml;
mod lime;
mod memory_map;
mod range_header;

pub use avml::{AvmlFile, is_avml};
pub use lime::{is_lime, lime_ranges};
pub use memory_map::{MAX_MAP_SIZE, MemoryMap};

use crate::address::PhysAddr;

/// Maximum number of ranges in an image. AVML writes one for each 16 MiB.
pub const MAX_RANGES: usize = 1 << 20;
/// End of the physical addresses of every machine.
pub const ADDRESS_LIMIT: u64 = 1 << 56;

/// Size of the largest pages of any kernel.
const LARGEST_PAGE: u64 = 64 << 10;

/// A range of physical memory in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageRange {
    /// First physical address.
    pub physical: PhysAddr,
    /// Size of the range, in bytes, as far as the image has it, and to the end of the page that
    /// the end of a truncated image cuts.
    pub size: u64,
    /// Offset of its bytes in the file; in an AVML image, among the decompressed bytes.
    pub offset: u64,
}

/// The size of a range of `size` bytes, of which the image has only `present`.
pub(crate) fn with_cut_page(present: u64, size: u64) -> u64 {
    size.min(present.saturating_add(LARGEST_PAGE))
}

/// The ranges of an image, in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageRanges {
    /// The ranges; none is empty.
    pub ranges: Vec<ImageRange>,
    /// Describes what is missing at the end of a truncated image.
    pub damage: Option<String>,
}

impl ImageRanges {
    /// The range of a raw image that starts at physical address 0.
    pub fn from_zero(size: u64) -> Self {
        let range = ImageRange {
            physical: PhysAddr(0),
            size: size.min(ADDRESS_LIMIT),
            offset: 0,
        };
        Self {
            ranges: vec![range],
            damage: None,
        }
    }

    /// Describes an image that ends at `size`, before what its headers promise.
    fn cut(&mut self, size: u64) {
        self.damage = Some(format!(
            "the image ends at offset {size:#x}, inside the memory range after {} complete ones: \
             it is truncated",
            self.ranges.len()
        ));
    }
}
