//! CPUs taken offline and brought up: what holds them back, in which order, how fast, and with
//! which settings of the kernel meanwhile.

mod batch;
mod blockers;
mod error;
#[cfg(test)]
pub(crate) mod fake;
mod histogram;
mod irqs;
mod order;
mod plan;
mod reason;
pub mod settings;
mod smt;
mod state;
mod sys_root;
mod tasks;
#[cfg(test)]
mod tests;
mod work;

pub use blockers::OfflineBlockers;
pub use error::HotplugError;
pub use histogram::histogram;
pub use irqs::Interrupt;
pub use plan::{Direction, Plan, Wanted};
pub use settings::SettingsError;
pub use smt::Threads;
pub use state::{CpuPosition, Cpus, Smt};
pub use sys_root::SysRoot;
pub use tasks::BoundTasks;
pub use work::{Failure, Options, Outcome, Took, carry_out};
