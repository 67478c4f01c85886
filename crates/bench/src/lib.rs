//! Measurements of the dump engine and of large memory on this machine: compared with other
//! programs and with the bare codec, and on sources of any size.
//!
//! The library contains the measurements of `bigiron bench` and `bigiron mem bench` for users.
//! Those for developers are in the program `bigiron-bench`, which the product does not link.

pub mod clock;
pub mod generated;
pub mod large_memory;
pub mod large_vmdump;
pub mod machine;
pub mod memory;
pub mod output;
pub mod peers;
pub mod results;
pub mod scale;
pub mod vmcore;
