//! The costs of a machine, and the origin of each.

use std::time::Instant;

use serde::Serialize;

use crate::simulate::Costs;

/// Number of rounds of each measurement, whose median is used.
pub(super) const ROUNDS: usize = 5;

/// Kind of origin of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Measured on this machine.
    Measured,
    /// Measured on this machine, with a similar operation.
    StandIn,
    /// Taken from the published machine.
    Assumed,
}

impl Basis {
    /// Returns the name.
    pub fn words(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::StandIn => "stand-in",
            Self::Assumed => "assumed",
        }
    }
}

/// Origin of some costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Origin {
    /// Names of the costs.
    pub costs: Vec<&'static str>,
    /// Kind of origin.
    pub how: Basis,
    /// Description of the measurement, or of the source.
    pub by: String,
}

/// Costs of the present machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// All costs.
    pub costs: Costs,
    /// Origins of all costs.
    pub origins: Vec<Origin>,
}

impl Measured {
    /// Records the origin of some costs.
    pub(super) fn say(&mut self, costs: &[&'static str], how: Basis, by: impl Into<String>) {
        self.origins.push(Origin {
            costs: costs.to_vec(),
            how,
            by: by.into(),
        });
    }
}

/// Returns the duration of `work` in seconds: the median of several rounds, after one for
/// warm-up.
pub(super) fn median(mut work: impl FnMut()) -> f64 {
    work();
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(ROUNDS / 2).copied().unwrap_or(0.0)
}
