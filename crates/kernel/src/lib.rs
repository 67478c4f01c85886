//! The memory of a Linux kernel: where it is read from, how its virtual addresses translate,
//! and what each page frame is used for.
//!
//! - [`source`]: files that hold the memory of a machine.
//! - [`memory`]: random access through a page cache.
//! - [`arch`]: address translation, a table of architectures.
//! - [`guard`]: the page frames that no dump level excludes.
//! - [`frame_set`]: sets of page frames in bounded memory.
//! - [`kernel`], [`kernel_memory`]: a kernel found in a source by its VMCOREINFO, and the
//!   interface to its memory.
//! - [`note_warnings()`]: what is said about damaged notes.
//! - [`mem_map`], [`page`], [`filter`]: struct pages, their classes, and the page
//!   frames that a dump level excludes.
//! - [`printk`]: the kernel log.
//! - [`rules`]: pages that a user keeps or drops.
//! - [`ranks`]: the number of pages before a section.
//! - [`symbols`], [`types`], [`vmlinux`]: the kernel's names and types, from its
//!   own memory or from its vmlinux.
//! - [`aligned`]: buffers for direct I/O.
//! - [`erase`]: data to erase from dumps.
//! - [`steps`]: a bound on the work that untrusted data can cause.
//! - [`struct_pages`]: the use of every page frame.
//! - [`xen`]: Xen hosts, whose page frames belong to several kernels.
//! - [`zones`]: the kernel's own count of free pages, which checks the filter.

pub mod aligned;
pub mod arch;
#[cfg(feature = "images")]
mod crash_header;
pub mod erase;
pub mod error;
pub mod filter;
pub mod frame_set;
pub mod guard;
pub mod kernel;
pub mod kernel_memory;
#[cfg(feature = "dwarf")]
pub mod linked_vmcoreinfo;
pub mod mem_map;
pub mod memory;
pub mod note_warnings;
pub mod page;
pub mod printk;
pub mod ranks;
pub mod rules;
pub mod source;
pub mod steps;
pub mod struct_pages;
pub mod symbols;
pub mod types;
pub mod vmcoreinfo;
pub mod vmlinux;
pub mod xen;
pub mod zones;

pub use aligned::{AlignedBuffer, BLOCK};
pub use error::{KernelError, SourceError};
pub use filter::{DumpLevel, ExcludedCounts, Filter, GuardedCounts};
pub use frame_set::FrameSet;
pub use guard::GuardedUse;
pub use kernel::Kernel;
pub use kernel_memory::KernelMemory;
pub use memory::{CacheStatistics, PhysicalMemory};
pub use note_warnings::{named_note_warnings, note_warnings};
pub use ranks::SectionRanks;
pub use source::{
    CacheUsage, Extensions, HeaderAddresses, Identities, IoMethod, MAX_RECIPIENTS, MemorySource,
    NotedText, PageReader, RUNNING_KERNEL, SECTION_FRAMES, SharedAccess, SharedPages, Source,
    SourceFacts, StoredSizes, VmdumpSource,
};
pub use steps::Steps;
