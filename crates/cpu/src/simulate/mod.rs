//! Model of the time to take CPUs offline, for machines larger than the present one.
//!
//! For each CPU taken offline, the kernel waits for RCU grace periods, rebuilds the scheduler
//! domains of all remaining CPUs, and exports them to user space by some strategy. The domains
//! are those of [`crate::build`]; the costs of basic operations are published, or measured on
//! the present machine.

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
pub use answer::{Answer, KnownSizes, Row, answer};
pub use costs::{Costs, MASKS_OF_A_DOMAIN, TRACING};
pub use growth::{Growth, OfflineMethod, Point, SIZES, growth, scaled};
pub use history::{KNOWN_CPUS, MACHINE, Published, WHOLE_TIMES, history};
#[cfg(feature = "hotplug")]
pub use measure::{Basis, Measured, Origin, measure};
pub use picture::picture;
pub use run::{Moments, Order, Simulation};
pub use strategy::{Export, Kernel, KernelName, Rcu, STRATEGIES, SpanCheck, Strategy};
pub use terms::Terms;
