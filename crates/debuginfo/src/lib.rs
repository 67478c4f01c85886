//! Debug information of a kernel and its modules, found by build id.
//!
//! A [`Finder`] looks at the files and folders that the user names, at the usual folders, into the
//! cache of debuginfod's clients, and, if it may, asks debuginfod servers. A file counts only if
//! its own build id is the one that was asked for. What a dump says of its kernel is not trusted:
//! [`Wanted`] holds no text that could lead out of a folder.

mod build_id;
mod cache;
mod finder;
mod folder;
mod server;
mod wanted;

pub use cache::Cache;
pub use finder::{Finder, Found};
pub use server::Servers;
pub use wanted::Wanted;
