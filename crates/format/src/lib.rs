//! On-disk formats of kernel crash dumps: ELF cores, kdump-compressed and flattened files,
//! vmdumps, memory images, dump devices, VMCOREINFO, page bitmaps, and codecs of pages.
//!
//! This crate uses no threads and no files. Everything is read through [`ReadAt`].

pub mod address;
pub mod bitmap;
pub mod bytes;
pub mod codec;
pub mod device;
pub mod elf;
pub mod error;
#[cfg(any(test, feature = "failing"))]
pub mod failing;
pub mod flattened;
pub mod image;
pub mod kdump;
pub mod memory_limit;
pub mod migration;
pub mod sadump;
pub mod salvage;
pub mod vmcoreinfo;
pub mod vmdump;
pub mod vmware;
pub mod xen_core;

pub use address::{PageFrame, PageFrameRange, PhysAddr, VirtAddr};
pub use bytes::ReadAt;
pub use error::FormatError;
