//! What an administrator may change of scheduler domains: set in the running kernel, noted down,
//! and put back after the kernel has built its domains anew, which forgets it.

mod error;
mod plan;
mod rules;
mod save;
mod tunable;
mod tuner;
mod watch;

pub use error::TuneError;
pub use plan::{Plan, plan};
pub use rules::{Rule, Rules};
pub use save::{Which, save};
pub use tunable::Tunable;
pub use tuner::{Change, RestoreSetting, TemporarySettings, Tuner};
pub use watch::Watch;

#[cfg(test)]
mod tests;
