//! `libbigiron_mem`: creation, locking and release of large memory by helper threads, for C.
//!
//! `scripts/c-library --header` generates the header, `include/bigiron_mem.h`, from the
//! comments in these sources. docs/c-library.md shows its use.
#![allow(non_camel_case_types)] // C names

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
