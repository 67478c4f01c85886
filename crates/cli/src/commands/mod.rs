//! The subcommands.

#[cfg(feature = "bench")]
pub mod bench;
pub mod dmesg;
pub mod dump;
#[cfg(feature = "generate")]
pub mod generate;
pub mod online;
pub mod report;
pub mod source;
pub mod verify;
