//! Creates, locks and destroys large memory with helper threads.
//!
//! The kernel populates a segment, locks it and tears down its page tables on one processor,
//! each in one system call. This crate cuts that work into slices. Helpers take a slice as soon
//! as they finish the last one, and process each by a separate system call.
//!
//! Everything below `operation` works inside an allocator's `mmap`: it allocates nothing, uses
//! no thread-local memory, and leaves no threads behind.

mod c_string_buf;
pub mod call;
pub mod engine;
pub mod explain;
pub mod huge;
pub mod kill;
pub mod machine;
pub mod mapped;
pub mod mapping;
pub mod operation;
pub mod plain;
pub mod policy;
pub mod preload;
pub mod reaper;
pub mod region;
pub mod segment;

pub use engine::{Outcome, Settings};
pub use region::{JobRegion, Region};
pub use rustix::io::Errno;
