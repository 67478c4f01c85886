//! Takes CPUs offline and brings them online: side effects, order, timing, and temporary kernel
//! settings.

mod batch;
mod effects;
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

pub use effects::OfflineEffects;
pub use error::HotplugError;
pub use histogram::histogram;
pub use irqs::Interrupt;
pub use plan::{Direction, Plan, SettingChange};
pub use settings::SettingsError;
pub use smt::Threads;
pub use state::{CpuPosition, Cpus, Smt};
pub use sys_root::SysRoot;
pub use tasks::BoundTasks;
pub use work::{CpuDuration, Failure, Options, Outcome, carry_out};
