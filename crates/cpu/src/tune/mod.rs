//! Tunables of scheduler domains: set in the running kernel, saved, and restored after a
//! rebuild of the domains, which resets them.

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
pub use save::{SavedValues, save};
pub use tunable::Tunable;
pub use tuner::{Change, RestoreSetting, TemporarySettings, Tuner};
pub use watch::Watch;

#[cfg(test)]
mod tests;
