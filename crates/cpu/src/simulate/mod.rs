//! How long it takes to take CPUs off line: a model, for machines larger than the one at hand.
//!
//! For each CPU that goes, the kernel waits for grace periods of RCU, rebuilds the scheduling
//! domains of all CPUs that stay, and shows them to user space by some strategy. The domains
//! are those of [`crate::build`]; what basic operations cost is given.

mod costs;
mod history;
mod run;

pub use costs::Costs;
pub use history::{Published, TRACING, history};
pub use run::{Export, Kernel, Order, Rcu, Simulation, SpanCheck, Terms, simulate};
