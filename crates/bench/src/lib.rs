//! Measurements of the dump engine on the machine at hand: against its peers,
//! against the bare codec, and on sources of any size.

pub mod adaptive;
pub mod chunk;
pub mod filter;
pub mod generated;
pub mod large_memory;
pub mod machine;
pub mod memory;
pub mod optimizations;
pub mod peers;
pub mod read;
pub mod results;
pub mod scale;
pub mod stripes;
pub mod trial;
pub mod vmcore;
