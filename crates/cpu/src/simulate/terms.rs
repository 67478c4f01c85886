//! Times by category, in seconds.

use serde::Serialize;

use super::costs::MASKS_OF_A_DOMAIN;
use super::strategy::{Export, Kernel, Rcu, SpanCheck};
use super::{Costs, Work};

/// Number of files of a domain: name, flags, groups_flags, level, five tunables,
/// max_newidle_lb_cost.
const FILES: f64 = 10.0;
/// Number of passes over a mask if each CPU is checked once: an equality test, or an
/// intersection and a union.
const CHECK_ONCE: f64 = 2.0;

/// Times by category, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Terms {
    /// Taking CPUs offline.
    pub hotplug: f64,
    /// Waiting for RCU.
    pub rcu: f64,
    /// Building domains.
    pub build: f64,
    /// Checking spans, which the kernel does within build_sched_domains.
    pub span_check: f64,
    /// Exporting domains.
    pub export: f64,
}

impl Terms {
    /// Returns the sum of all categories.
    pub fn total(&self) -> f64 {
        self.named().iter().map(|(_, seconds)| seconds).sum()
    }

    /// Returns each category with its name.
    pub fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("hotplug", self.hotplug),
            ("RCU", self.rcu),
            ("build", self.build),
            ("check", self.span_check),
            ("show", self.export),
        ]
    }

    /// Returns the name of the largest category.
    pub fn largest(&self) -> &'static str {
        let named = self.named();
        let largest = named.iter().max_by(|one, other| one.1.total_cmp(&other.1));
        largest.map_or("", |(name, _)| name)
    }

    /// Adds `other`, multiplied by `times`.
    pub(super) fn add(&mut self, other: &Self, times: f64) {
        self.hotplug += other.hotplug * times;
        self.rcu += other.rcu * times;
        self.build += other.build * times;
        self.span_check += other.span_check * times;
        self.export += other.export * times;
    }
}

/// Inputs of a rebuild: the work before and after, and the domains that changed in kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Rebuild {
    before: Work,
    after: Work,
    /// Number of CPUs whose levels or flags changed, and numbers of their domains before and
    /// after.
    changed: (f64, f64, f64),
}

impl Rebuild {
    pub(super) fn new(before: &Work, after: &Work) -> Self {
        let pairs = before.kinds.iter().zip(&after.kinds);
        let changed = pairs.filter(|(old, new)| old != new).fold(
            (0.0, 0.0, 0.0),
            |(cpus, before, now), (old, new)| {
                (
                    cpus + 1.0,
                    before + old.len() as f64,
                    now + new.len() as f64,
                )
            },
        );
        let counts = |work: &Work| Work {
            kinds: Vec::new(),
            ..work.clone()
        };
        Self {
            before: counts(before),
            after: counts(after),
            changed,
        }
    }

    /// Returns the times of building, checking and exporting once. Nothing is built if no CPU
    /// is left.
    pub(super) fn terms(&self, kernel: Kernel, costs: &Costs) -> Terms {
        let work = &self.after;
        let (cpus, words) = (work.cpus as f64, work.words as f64);
        let mask = words * costs.mask_word;
        let (built, checked) = (work.built as f64, work.checked as f64);
        Terms {
            build: built * (costs.domain + MASKS_OF_A_DOMAIN * mask)
                + work.members as f64 * costs.member
                + work.siblings as f64 * (costs.sibling + mask),
            span_check: match kernel.span_check {
                SpanCheck::Pairs => checked * cpus * words * costs.check_word,
                SpanCheck::HalfOfPairs => checked * cpus * words * costs.check_word / 2.0,
                SpanCheck::Once => checked * CHECK_ONCE * mask,
            },
            export: self.export(kernel.export, costs),
            ..Terms::default()
        }
    }

    fn export(&self, export: Export, costs: &Costs) -> f64 {
        let cpus = |work: &Work| work.cpus as f64;
        let shown = |work: &Work| work.shown as f64;
        // Old files are removed, and new ones created.
        let debugfs = |cpus_before: f64, before: f64, cpus: f64, now: f64| {
            cpus * costs.debugfs_lookup
                + (cpus_before + before * (1.0 + FILES)) * costs.debugfs_remove
                + (cpus + now) * costs.debugfs_directory
                + now * FILES * costs.debugfs_file
        };
        let (before, after) = (&self.before, &self.after);
        match export {
            Export::Off => 0.0,
            Export::Debugfs => debugfs(cpus(before), shown(before), cpus(after), shown(after)),
            Export::Sysctl => {
                costs.sysctl_register(cpus(after)) + cpus(before) * costs.sysctl_remove
            }
            Export::Incremental => {
                let (changed, old, new) = self.changed;
                debugfs(changed, old, changed, new)
            }
            Export::Lazy => costs.generation,
        }
    }
}

/// Returns the times of taking one CPU offline, without a rebuild.
pub(super) fn down(kernel: Kernel, costs: &Costs) -> Terms {
    let period = match kernel.rcu {
        Rcu::Normal => costs.grace_period,
        Rcu::Expedited => costs.grace_period_expedited,
    };
    Terms {
        hotplug: costs.hotplug,
        rcu: costs.grace_periods * period,
        ..Terms::default()
    }
}
