//! Output of scheduler domains: a tree, a table, a graph, a picture, and the differences
//! between two snapshots.

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
