//! A tree of files that are made when they are looked at, mounted by FUSE. Knows nothing of
//! dumps.
//!
//! - [`tree`]: directories and files, each made once, when somebody looks.
//! - [`content`]: what is in a file.
//! - [`live`]: a tree that is asked anew each time, and may be written.
//! - `filesystem`, `live_filesystem`: what the kernel asks, answered out of the one and the other.
//! - [`mountpoint`]: the kernel's mount: made, and taken away even while it is used.
//! - [`session`]: a tree that is mounted, and who serves it.

pub mod content;
pub mod error;
mod filesystem;
mod fusermount;
pub mod live;
mod live_filesystem;
pub mod mountpoint;
mod served;
pub mod session;
pub mod tree;

pub use content::{Content, ContentError, Text};
pub use error::MountError;
pub use live::{Kind, Listed, Live, Refusal, Why};
pub use mountpoint::{Mountpoint, Unmounted};
pub use session::{Options, Session};
pub use tree::{Entry, Tree};
