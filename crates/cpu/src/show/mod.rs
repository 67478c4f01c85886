//! Scheduler domains for people and programs: a tree, a table, a graph, a picture, and
//! what changed between two moments.

mod diff;
mod dot;
mod picture;
mod table;
mod text;

pub use diff::{Change, changes};
pub use dot::dot;
pub use picture::picture;
pub use table::table;
pub use text::{Detail, text};
