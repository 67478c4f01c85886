//! `libbigiron_mem`: large memory made, locked and given back by helper threads, for C.
//!
//! The header, `include/bigiron_mem.h`, is made from what stands here, by
//! `scripts/c-library --header`. docs/c-library.md shows its use.
#![allow(non_camel_case_types)] // they are C's

mod boundary;
mod callbacks;
mod memory;
mod options;
mod placement;
mod progress;
mod request;
mod segment;
mod text;

pub use memory::*;
pub use options::*;
pub use placement::*;
pub use request::*;
pub use segment::*;
pub use text::*;
