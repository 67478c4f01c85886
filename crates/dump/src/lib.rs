//! Captures and converts crash dumps: filter, compress and write in parallel.
//!
//! [`dump()`] opens the parts of the output and runs the phases: `plan` filters all sections of
//! page frames and decides which pages are kept; the format's writer (`kdump`, `elf`, `vmdump`)
//! lays the parts out; helpers copy batches of pages; the header that marks the dump as complete
//! is written last. [`verify()`] compares a dump with its source, [`compare()`] finds the
//! differences of two dumps.

mod bitmaps;
mod compare;
mod core_map;
mod core_view;
mod device;
mod driver;
mod dump;
mod dump_id;
mod elf;
mod encryption;
mod entropy;
mod error;
mod first_report;
mod format;
mod frame_runs;
mod job;
mod kdump;
mod kept_pages;
mod kernel_addresses;
mod losses;
mod memory_needs;
mod notes;
mod options;
mod output;
pub mod page;
mod plan;
mod progress;
mod read_pages;
mod reference;
#[cfg(feature = "sample")]
mod sample;
mod save;
mod sections;
mod shared_pages;
mod stripe_check;
mod struct_pages;
mod subject;
mod summary;
mod verify;
mod vmdump;

pub use compare::{Comparison, compare};
pub use core_view::CoreView;
pub use dump::dump;
pub use encryption::{Recipients, RecipientsError};
pub use error::DumpError;
pub use first_report::first_report;
pub use format::{
    ChunkCompression, DEFAULT_CHUNK_BYTES, DumpOutput, Format, OutputTarget, PageCompression,
    ZstdChunks,
};
pub use frame_runs::{FrameRun, FrameRuns};
pub use options::{DumpIdentity, DumpOptions, Optimizations, Unsaved};
pub use output::{FileOutput, NamedTaker, Output, Taker};
pub use progress::{OutputCall, Phase, Progress};
pub use reference::{Reference, find_kernel_by_dump};
#[cfg(feature = "sample")]
pub use sample::Sample;
pub use save::{
    Choice, Fate, Removed, Retention, Save, SaveOptions, Saved, SavedLog, save_kernel, save_log,
};
pub use subject::Subject;
pub use summary::{PhaseTime, Summary, Waits, peak_memory, peak_memory_in};
pub use verify::{Verification, verify};
pub use vmdump::{Repair, check_vmdump, repair_vmdump};
