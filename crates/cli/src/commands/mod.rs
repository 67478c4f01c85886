//! The subcommands.

#[cfg(feature = "bench")]
pub mod bench;
pub mod diff;
pub mod dmesg;
pub mod dump;
#[cfg(feature = "generate")]
pub mod generate;
pub mod live;
pub mod online;
pub mod report;
pub mod save;
pub mod source;
pub mod verify;
