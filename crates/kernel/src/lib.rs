//! What the memory of a Linux kernel means: where it can be read, how its
//! virtual addresses translate, and which page frames hold what.
//!
//! - [`source`]: files that hold the memory of a machine.
//! - [`memory`]: random reads through a cache of pages.
//! - [`arch`]: address translation, a table by architecture.
//! - [`kernel`]: a kernel found in a source by its VMCOREINFO.
//! - [`mem_map`], [`page`], [`filter`]: struct pages, their classes, and which
//!   page frames a dump level leaves out.
//! - [`printk`]: the kernel log.
//! - [`ranks`]: how many pages come before a chunk.
//! - [`symbols`], [`types`], [`vmlinux`]: the kernel's names and types, from its
//!   own memory or from the file it was linked to.
//! - [`erase`]: what is to be blanked in a dump.
//! - [`struct_pages`]: what every page frame is used for.
//! - [`zones`]: the kernel's own count of free pages, to check the filter by.

pub mod arch;
pub mod erase;
pub mod error;
pub mod filter;
pub mod kernel;
#[cfg(feature = "dwarf")]
pub mod linked_vmcoreinfo;
pub mod mem_map;
pub mod memory;
pub mod page;
pub mod printk;
pub mod ranks;
pub mod source;
pub mod struct_pages;
pub mod symbols;
pub mod types;
pub mod vmcoreinfo;
pub mod vmlinux;
pub mod zones;

pub use error::{KernelError, SourceError};
pub use filter::{DumpLevel, ExcludedCounts, Filter};
pub use kernel::Kernel;
pub use memory::{CacheStatistics, PhysicalMemory};
pub use ranks::ChunkRanks;
pub use source::{
    CHUNK_FRAMES, CacheUsage, Identities, IoMethod, MemorySource, PageReader, RUNNING_KERNEL,
    SharedPages, Source, VmdumpSource,
};
