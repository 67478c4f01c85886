//! Captures and converts crash dumps: filter, compress and write in parallel.
//!
//! The way of the data: `plan` runs the filter over all chunks of page
//! frames and notes which pages are kept; `kdump` or `elf` lays the file
//! out; helpers copy chunk by chunk; the header that says "complete" is
//! written last. [`dump`] does all of it, [`verify()`] holds a dump against what it
//! was made from, [`compare()`] counts how two dumps differ.

mod bitmaps;
mod chunks;
mod compare;
mod elf;
mod entropy;
mod error;
mod kdump;
mod losses;
mod notes;
mod options;
mod output;
pub mod page;
mod plan;
mod progress;
mod shared_pages;
mod summary;
mod task;
mod verify;

pub use compare::{Comparison, FrameCount, compare};
pub use error::DumpError;
pub use options::{DumpOptions, Optimizations, OutputFormat, OutputTarget, PageCompression};
pub use output::{FileOutput, Output};
pub use progress::{Doing, Phase, Progress};
pub use summary::{PhaseTime, Summary, Waits, peak_memory, peak_memory_in};
pub use task::{dump, dump_split};
pub use verify::{Verification, verify};
