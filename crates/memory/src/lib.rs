//! Creates, locks and destroys large memory with helper threads.
//!
//! What the kernel does in one system call with one processor (making the pages
//! of a segment, locking them, taking its page tables down) is cut into slices
//! that helpers grab as they finish, each by a system call of its own.
//!
//! Everything below `operation` works inside an allocator's `mmap`: it allocates
//! nothing, uses no thread-local memory, and leaves no threads behind.

mod c_string_buf;
pub mod call;
pub mod engine;
pub mod explain;
pub mod huge;
pub mod machine;
pub mod mapped;
pub mod mapping;
pub mod operation;
pub mod policy;
pub mod preload;
pub mod reaper;
pub mod region;
pub mod segment;

pub use engine::{Outcome, Settings};
pub use region::{JobRegion, Region};
pub use rustix::io::Errno;
