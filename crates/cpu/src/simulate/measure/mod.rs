//! Costs of basic operations on the present machine.
//!
//! The kernel's own functions cannot be called. Instead, the work of a domain build is done in
//! user space, with the structures of as many CPUs; files are created in memory; and RCU is
//! waited for by a system call that does nothing else. Costs that cannot be measured are
//! assumed, and reported as such.

mod domains;
mod files;
mod measured;
mod rcu;

use super::Costs;
use crate::tune::TemporarySettings;

pub use measured::{Basis, Measured, Origin};

/// Measures the costs that can be measured, with the structures of `cpus` CPUs, in about a
/// second. Expedited grace periods are measured only if /sys/kernel/rcu_expedited is on, or if
/// `expedite` permits setting it for some milliseconds.
pub fn measure(cpus: usize, expedite: Option<&dyn TemporarySettings>) -> Measured {
    let mut measured = Measured {
        costs: Costs::POWER10,
        origins: Vec::new(),
    };
    domains::measure(cpus, &mut measured);
    files::measure(&mut measured);
    rcu::measure(expedite, &mut measured);
    let published = "value of a POWER10 of 2022: no CPU is taken offline for this";
    measured.say(&["hotplug"], Basis::Assumed, published);
    let periods = "two, as ftrace shows on x86 with Linux 6.1 and 6.12 (cpus_write_lock, sched_cpu_deactivate)";
    measured.say(&["grace_periods"], Basis::Assumed, periods);
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_has_an_origin_and_is_positive() {
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
