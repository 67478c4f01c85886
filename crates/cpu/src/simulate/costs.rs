//! What basic operations cost.

use serde::{Deserialize, Serialize};

/// Seconds that basic operations take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Taking one CPU down, without what is below: callbacks, stopping all others, interrupts.
    pub hotplug: f64,
    /// Waiting for RCU in one operation, all grace periods together.
    pub rcu_normal: f64,
    /// The same while grace periods are expedited.
    pub rcu_expedited: f64,
    /// Building a domain and its groups: for a word of its mask of CPUs.
    pub domain_word: f64,
    /// Comparing two CPUs' masks of a level, to see that they do not overlap in part.
    pub span_pair: f64,
    /// debugfs: looking for a CPU's directory and removing what is in it.
    pub debugfs_remove: f64,
    /// debugfs: making a directory.
    pub debugfs_directory: f64,
    /// debugfs: making a file.
    pub debugfs_file: f64,
    /// sysctl: a CPU of the table that is removed.
    pub sysctl_remove: f64,
    /// sysctl: registering a table, whatever is in it.
    pub sysctl_table: f64,
    /// sysctl: a CPU's directories and files in it.
    pub sysctl_cpu: f64,
    /// Telling that all has changed, for who makes names and contents when they are looked at.
    pub generation: f64,
}

impl Costs {
    /// Registering the sysctl table of so many CPUs.
    pub fn sysctl_register(&self, cpus: f64) -> f64 {
        self.sysctl_table + cpus * self.sysctl_cpu
    }

    /// POWER10 with 1920 CPUs, Linux 5.11 to 6.0. Published are times of functions under the
    /// function-graph tracer; here they are without it ([`super::TRACING`]). That building takes
    /// 0.8 of some 2 seconds and the check of spans the rest is how much faster it became when the
    /// check was made linear (ce29a7da84cd); RCU from 400 CPUs of the same make (74.8 and 3.2
    /// seconds for 350 CPUs).
    pub const POWER10: Self = Self {
        hotplug: 0.005,
        rcu_normal: 0.205,
        rcu_expedited: 0.004,
        // 0.8 s for 1920 CPUs with six levels of 30 words.
        domain_word: 0.8 / (1920.0 * 6.0 * 30.0),
        // 1.17 s for the pairs of 1920 CPUs at the five levels that are not of several nodes.
        span_pair: 1.17 / (1920.0 * 1920.0 * 5.0),
        debugfs_remove: (14.526e-6 + 1092.64e-6) / super::TRACING,
        debugfs_directory: 29.0e-6 / super::TRACING,
        debugfs_file: 7.6e-6 / super::TRACING,
        sysctl_remove: 20.05e-3 / 1920.0 / super::TRACING,
        // Two points: 240 CPUs in 13.9 ms, 1920 in 65.5 ms under the tracer.
        sysctl_table: 9.5e-3,
        sysctl_cpu: 18.2e-6,
        generation: 1.0e-7,
    };
}
