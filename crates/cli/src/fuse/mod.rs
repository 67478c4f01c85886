//! Trees of generated files, mounted by FUSE. Independent of dumps.
//!
//! - [`tree`]: directories and files that do not change, generated on first use.
//! - [`content`]: contents of files.
//! - [`live`]: a tree that changes and may be written.
//! - `filesystem`, `live_filesystem`: answers to FUSE requests for the two kinds of tree.
//! - [`mountpoint`]: the kernel's mount, which is removed even while it is in use.
//! - [`helper`]: the process that mounts and unmounts for a confined one.
//! - [`session`]: a mounted tree and its serving threads.

pub mod content;
pub mod error;
mod filesystem;
mod fusermount;
pub mod helper;
pub mod live;
mod live_filesystem;
pub mod mounted;
pub mod mountpoint;
mod served;
pub mod session;
pub mod tree;

pub use content::{Content, ContentError, Text};
pub use error::MountError;
pub use helper::Helper;
pub use live::{Kind, Listed, Live, Refusal, RefusalKind};
pub use mounted::{Mounted, Place};
pub use mountpoint::Unmounted;
pub use session::{Options, Session};
pub use tree::{Entry, Tree};
