//! Erases data from dumps: makedumpfile's erase commands.
//!
//! | module | contents |
//! |---|---|
//! | [`config`] | parser of the commands |
//! | [`resolve()`] | resolves symbols and types to physical memory ranges |
//! | [`ranges`] | sets of such ranges |
//! | [`ErasedSource`] | a memory source that returns erased bytes |

pub mod config;
mod item;
mod lists;
mod parser;
pub mod ranges;
mod resolve;
mod source;

pub use config::{Config, Problem};
pub use item::EraseMemory;
pub use ranges::{Blank, Blanks};
pub use resolve::{Erasure, resolve};
pub use source::ErasedSource;
