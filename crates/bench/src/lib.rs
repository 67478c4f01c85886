//! Measurements of the dump engine on the machine at hand: against its peers,
//! against the bare codec, and on sources of any size.

pub mod machine;
pub mod results;
