//! CPUs taken off line and brought up: what holds them back, in which order, how fast, and with
//! which settings of the kernel meanwhile.

mod batch;
mod error;
#[cfg(test)]
pub(crate) mod fake;
mod hindrance;
mod histogram;
mod irqs;
mod order;
mod place;
mod plan;
mod reason;
pub mod settings;
mod smt;
mod state;
mod tasks;
#[cfg(test)]
mod tests;
mod work;

pub use error::HotplugError;
pub use hindrance::Hindrances;
pub use histogram::histogram;
pub use irqs::Interrupt;
pub use place::Place;
pub use plan::{Direction, Plan, Wanted};
pub use settings::SettingsError;
pub use smt::Threads;
pub use state::{Cpus, Smt, Spot};
pub use tasks::BoundTasks;
pub use work::{Failure, Options, Outcome, Took, carry_out};
