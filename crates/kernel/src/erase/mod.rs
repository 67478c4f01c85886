//! Erases data from dumps: makedumpfile's erase commands.
//!
//! | module | contents |
//! |---|---|
//! | [`config`] | parser of the commands |
//! | [`resolve()`] | resolves symbols and types to physical memory ranges |
//! | [`ranges`] | sets of such ranges |
//! | [`ErasedSource`] | a memory source that returns erased bytes |

mod command;
pub mod config;
mod elements;
mod extent;
mod item;
mod linked;
mod lists;
mod parser;
mod per_cpu;
pub mod ranges;
mod resolve;
mod source;
mod trees;
mod walker;

pub use command::{Amount, Command, Erase, Expression, Link, Loop, Problem};
pub use config::Config;
pub use item::EraseMemory;
pub use ranges::{Blank, Blanks};
pub use resolve::{Erasure, resolve};
pub use source::ErasedSource;
pub(crate) use walker::{Objects, Walker};
