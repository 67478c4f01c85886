//! What is to be blanked in a dump: makedumpfile's erase commands.
//!
//! | file | what is in it |
//! |---|---|
//! | [`config`] | the language |
//! | [`resolve()`] | from symbols and types to bytes of memory |
//! | [`ranges`] | those bytes |
//! | [`ErasedSource`] | a source of memory with them blanked |

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
