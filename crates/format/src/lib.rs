//! On-disk layouts of kernel crash dumps: ELF cores, kdump-compressed and
//! flattened files, VMCOREINFO, page bitmaps, and the codecs of their pages.
//!
//! Pure: no threads, no files. Everything is read through [`ReadAt`].

pub mod address;
pub mod bitmap;
pub mod bytes;
pub mod codec;
pub mod device;
pub mod elf;
pub mod error;
pub mod flattened;
pub mod kdump;
pub mod vmcoreinfo;
pub mod vmdump;

pub use address::{PageFrame, PageFrameRange, PhysAddr, VirtAddr};
pub use bytes::ReadAt;
pub use error::FormatError;
