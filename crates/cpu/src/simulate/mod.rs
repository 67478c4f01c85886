//! How long it takes to take CPUs offline: a model, for machines larger than the one at hand.
//!
//! For each CPU that goes, the kernel waits for grace periods of RCU, rebuilds the scheduling
//! domains of all CPUs that stay, and shows them to user space by some strategy. The domains
//! are those of [`crate::build`]; what basic operations cost is published or measured here.

mod answer;
mod costs;
mod growth;
mod history;
#[cfg(feature = "hotplug")]
mod measure;
mod picture;
mod run;
mod strategy;
mod terms;

pub use crate::build::Work;
pub use answer::{Answer, Known, Row, answer};
pub use costs::{Costs, MASKS_OF_A_DOMAIN};
pub use growth::{Growth, OfflineMethod, Point, SIZES, growth, scaled};
pub use history::{KNOWN_CPUS, MACHINE, Published, TRACING, WHOLE_TIMES, history};
#[cfg(feature = "hotplug")]
pub use measure::{Basis, Measured, Origin, measure};
pub use picture::picture;
pub use run::{Moments, Order, Simulation};
pub use strategy::{Export, Kernel, KernelName, Rcu, STRATEGIES, SpanCheck, Strategy};
pub use terms::Terms;
