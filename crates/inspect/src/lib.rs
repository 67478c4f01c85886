//! What the kernel in a dump was and why it stopped, without debug symbols.

pub mod crash;
pub mod definition;
pub mod overview;

pub use crash::{Crash, Event, EventKind};
pub use definition::{Definition, Field, Kind, define};
pub use overview::Overview;
