//! Captures and converts crash dumps: filter, compress and write in parallel.
//!
//! The way of the data: `plan` runs the filter over all chunks of page
//! frames and notes which pages are kept; `kdump` or `elf` lays the file
//! out; helpers copy chunk by chunk; the header that says "complete" is
//! written last. [`dump()`] does all of it, [`verify()`] holds a dump against what it
//! was made from, [`compare()`] finds where two dumps differ.

mod bitmaps;
mod chunks;
mod compare;
mod core_map;
mod core_view;
mod device;
mod dump;
mod dump_id;
mod elf;
mod encryption;
mod entropy;
mod error;
mod frame_runs;
mod kdump;
mod kernel_addresses;
mod losses;
mod needs;
mod notes;
mod options;
mod output;
pub mod page;
mod plan;
mod progress;
mod save;
mod shared_pages;
mod summary;
mod task;
mod verify;
mod vmdump;

pub use compare::{Comparison, compare};
pub use core_view::CoreView;
pub use dump::{dump, dump_split, dump_striped};
pub use encryption::{Recipients, RecipientsError};
pub use error::DumpError;
pub use frame_runs::{FrameRun, FrameRuns};
pub use options::{
    DumpIdentity, DumpOptions, Optimizations, OutputFormat, OutputTarget, PageCompression,
};
pub use output::{FileOutput, Output};
pub use progress::{Doing, Phase, Progress};
pub use save::{Save, SaveOptions, Saved, save_kernel};
pub use summary::{PhaseTime, Summary, Waits, peak_memory, peak_memory_in};
pub use verify::{Verification, verify};
pub use vmdump::{Repair, check_vmdump, repair_vmdump};
