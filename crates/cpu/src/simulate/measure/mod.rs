//! What basic operations cost on the machine at hand.
//!
//! The kernel's own functions cannot be called. What a builder of domains does is done here in user
//! space, on as many CPUs' structures; files are made in memory; and RCU is waited for by a
//! system call that does nothing else. What cannot be had is taken from elsewhere, and said so.

mod domains;
mod files;
mod rcu;

use std::time::Instant;

use serde::Serialize;

use super::Costs;
use crate::tune::TemporarySettings;

/// How often everything is tried; medians count.
const ROUNDS: usize = 5;

/// Where a cost is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Measured here.
    Measured,
    /// Measured here of something like it.
    StandIn,
    /// Taken from the published machine.
    Assumed,
}

impl Basis {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::StandIn => "stand-in",
            Self::Assumed => "assumed",
        }
    }
}

/// Where a cost is from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Origin {
    /// The costs, by their names.
    pub costs: Vec<&'static str>,
    /// Whether they were measured.
    pub how: Basis,
    /// By what.
    pub by: String,
}

/// Costs of the machine at hand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// All of them.
    pub costs: Costs,
    /// Where each is from.
    pub origins: Vec<Origin>,
}

/// Measures what can be, with structures of so many CPUs. Takes about a second. What RCU takes when it is
/// expedited is measured only where `expedite` may set /sys/kernel/rcu_expedited for some milliseconds.
pub fn measure(cpus: usize, expedite: Option<&dyn TemporarySettings>) -> Measured {
    let mut measured = Measured {
        costs: Costs::POWER10,
        origins: Vec::new(),
    };
    domains::measure(cpus, &mut measured);
    files::measure(&mut measured);
    rcu::measure(expedite, &mut measured);
    let published = "as of a POWER10 of 2022: no CPU is taken offline to find out";
    measured.say(&["hotplug"], Basis::Assumed, published);
    let periods =
        "two, as ftrace shows of Linux 6.1 and 6.12 on x86 (cpus_write_lock, sched_cpu_deactivate)";
    measured.say(&["grace_periods"], Basis::Assumed, periods);
    measured
}

impl Measured {
    fn say(&mut self, costs: &[&'static str], how: Basis, by: impl Into<String>) {
        self.origins.push(Origin {
            costs: costs.to_vec(),
            how,
            by: by.into(),
        });
    }
}

/// Seconds of what `work` does: the median of several rounds, after one that nobody counts.
fn median(mut work: impl FnMut()) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_has_an_origin_and_is_above_zero() {
        let measured = measure(64, None);
        let costs = serde_json::to_value(measured.costs).unwrap();
        let names = measured.origins.iter().flat_map(|origin| &origin.costs);
        let mut names: Vec<&str> = names.copied().collect();
        names.sort_unstable();
        let mut all: Vec<&str> = costs
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        all.sort_unstable();
        assert_eq!(names, all);
        for (name, cost) in costs.as_object().unwrap() {
            let cost = cost.as_f64().unwrap();
            assert!(cost > 0.0 && cost.is_finite(), "{name}: {cost}");
        }
        let how = |cost: &str| {
            let origin = measured
                .origins
                .iter()
                .find(|origin| origin.costs.contains(&cost));
            origin.unwrap().how
        };
        assert_eq!(how("domain"), Basis::Measured);
        assert_eq!(how("hotplug"), Basis::Assumed);
    }
}
