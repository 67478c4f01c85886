//! The subcommands.

pub mod bench;
pub mod dump;
pub mod generate;
pub mod report;
pub mod source;
pub mod verify;
