//! kdump-compressed files ("diskdump", version 6): one descriptor for each
//! dumped page frame, each page compressed on its own.
//!
//! Blocks are of the kernel's page size. Block 0 holds the main header, block
//! 1 and following the sub-header with the notes, then come two bitmaps (the
//! page frame is RAM; the page is dumped), then the page descriptors in
//! page-frame order, then the data in any order.
//!
//! Source: struct disk_dump_header and struct kdump_sub_header as makedumpfile
//! (diskdump_mod.h) writes and crash (diskdump.c) reads them.

pub mod bitmaps;
pub mod descriptor;
pub mod header;
pub mod layout;
pub mod lost_bits;

pub use bitmaps::BitmapCopies;
pub use descriptor::{DESCRIPTOR_SIZE, PageDescriptor, codec_of_flags, flags_of_codec};
pub use header::{KdumpHeaders, SIGNATURE, Utsname};
pub use layout::Layout;
pub use lost_bits::LostBits;
