//! Times on machines of all sizes.

use serde::Serialize;

use super::answer::{KnownSizes, NEWEST};
use super::strategy::{Kernel, KernelName, Rcu, STRATEGIES};
use super::{Costs, Moments, Order};
use crate::build::Rules;
use crate::topology::{Topology, TopologyTextError};

/// Sizes of the machines in CPUs: powers of two, and the largest with published times.
pub const SIZES: [usize; 9] = [64, 128, 256, 512, 1024, 1920, 2048, 4096, 8192];

/// A method of taking CPUs offline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfflineMethod {
    /// Name of the strategy.
    pub strategy: &'static str,
    /// Kernel, and the method of taking CPUs offline.
    pub kernel: Kernel,
}

/// Times of one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Description of the machine.
    pub machine: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// Number of CPUs taken offline.
    pub offlined: usize,
    /// True if the machine is outside the range for which costs are known.
    pub extrapolated: bool,
    /// Time of each method, in seconds.
    pub seconds: Vec<f64>,
}

/// Times of machines of all sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// The methods.
    pub ways: Vec<OfflineMethod>,
    /// The machines, smallest first.
    pub points: Vec<Point>,
}

/// Computes all strategies on machines built from the same sockets. Sizes that cannot be built
/// from them are skipped.
///
/// # Errors
/// The description of the machine is invalid.
pub fn growth(
    words: &str,
    rules: &Rules,
    against: KernelName,
    costs: &Costs,
    known: KnownSizes,
    samples: usize,
) -> Result<Growth, TopologyTextError> {
    Topology::from_text(words)?;
    let base = against.kernel();
    let ways = |rcu| {
        STRATEGIES.iter().map(move |strategy| OfflineMethod {
            strategy: strategy.key,
            kernel: Kernel {
                span_check: base.span_check,
                export: strategy.export,
                rcu,
                batched: strategy.batched,
            },
        })
    };
    let newest = OfflineMethod {
        strategy: NEWEST,
        kernel: Kernel {
            rcu: Rcu::Expedited,
            ..KernelName::Linux6_16.kernel()
        },
    };
    let ways: Vec<OfflineMethod> = ways(Rcu::Normal)
        .chain(ways(Rcu::Expedited))
        .chain([newest])
        .collect();
    let point = |cpus: &usize| {
        let (machine, topology) = scaled(words, *cpus)?;
        let moments = Moments::new(&topology, rules, Order::ByCore, samples);
        let runs = ways.iter().map(|way| moments.run(way.kernel, costs));
        let runs: Vec<_> = runs.collect();
        Some(Point {
            machine,
            cpus: *cpus,
            offlined: runs.first().map_or(0, |run| run.offlined),
            extrapolated: known.is_extrapolated(*cpus),
            seconds: runs.iter().map(|run| run.total.total()).collect(),
        })
    };
    let points = SIZES.iter().filter_map(point).collect();
    Ok(Growth { ways, points })
}

/// Returns a machine with `cpus` CPUs: more or fewer of the same sockets, or one smaller socket
/// if a socket is too large; `None` if that is not possible. Distances between individual nodes
/// are dropped, because they are unknown for other numbers of nodes.
pub fn scaled(words: &str, cpus: usize) -> Option<(String, Topology)> {
    let is = |word: &str, key: &str| {
        word.strip_prefix(key)
            .is_some_and(|rest| rest.starts_with('='))
    };
    let kept = words
        .split_ascii_whitespace()
        .filter(|word| !is(word, "sockets") && !is(word, "distances"));
    let kept: Vec<&str> = kept.collect();
    let socket = Topology::from_text(&kept.join(" ")).ok()?;
    let of_socket = socket.cpu_count();
    let text = if cpus.is_multiple_of(of_socket) {
        format!("sockets={} {}", cpus / of_socket, kept.join(" "))
    } else {
        let threads = of_socket / socket.cores.count().max(1);
        let cores = (of_socket > cpus && cpus.is_multiple_of(threads)).then(|| cpus / threads)?;
        let rest: Vec<&str> = kept.into_iter().filter(|word| !is(word, "cores")).collect();
        format!("sockets=1 cores={cores} {}", rest.join(" "))
    };
    let topology = Topology::from_text(&text).ok()?;
    (topology.cpu_count() == cpus).then_some((text, topology))
}

#[cfg(test)]
mod tests {
    use super::super::{KNOWN_CPUS, MACHINE};
    use super::*;

    #[test]
    fn machines_are_scaled_by_sockets() {
        let words = |machine, cpus| scaled(machine, cpus).map(|(words, _)| words);
        let power = "cores=16 threads=8 far=40";
        assert_eq!(words(MACHINE, 1920), Some(format!("sockets=15 {power}")));
        assert_eq!(words(MACHINE, 8192), Some(format!("sockets=64 {power}")));
        let small = "sockets=1 cores=8 threads=8 far=40";
        assert_eq!(words(MACHINE, 64).as_deref(), Some(small));
        assert_eq!(words(MACHINE, 100), None);
        assert_eq!(words("cores=3 threads=2 numa=3", 64), None);
    }

    #[test]
    fn larger_machines_take_longer_and_extrapolated_sizes_are_marked() {
        let rules = Rules::LINUX_6_1;
        let known = KnownSizes {
            fewest: KNOWN_CPUS.0,
            most: KNOWN_CPUS.1,
        };
        let words = "cores=16 threads=8 far=40";
        let growth = growth(
            words,
            &rules,
            KernelName::Linux6_1,
            &Costs::POWER10,
            known,
            1,
        )
        .unwrap();
        let sizes: Vec<_> = growth.points.iter().map(|point| point.cpus).collect();
        assert_eq!(sizes, SIZES);
        for pair in growth.points.windows(2) {
            let (small, large) = (&pair[0].seconds, &pair[1].seconds);
            assert_eq!(small.len(), growth.ways.len());
            assert!(small.iter().zip(large).all(|(small, large)| small < large));
        }
        let marked = growth.points.iter().filter(|point| point.extrapolated);
        let marked: Vec<_> = marked.map(|point| point.cpus).collect();
        assert_eq!(marked, [64, 128, 2048, 4096, 8192]);
    }
}
