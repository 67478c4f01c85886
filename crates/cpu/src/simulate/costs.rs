//! Costs of basic operations.

use serde::{Deserialize, Serialize};

/// Factor by which the function-graph tracer slows functions down; the published times of
/// functions were taken under it. The factor is chosen, not published, so that the times of
/// functions and of whole operations agree.
pub const TRACING: f64 = 1.475;

/// CPU masks processed for each domain: three are zeroed with their structures, then `and`, two
/// weights, a subset test, an equality test, two copies for its group and the group's weight.
pub const MASKS_OF_A_DOMAIN: f64 = 11.0;

/// Costs of basic operations, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Taking one CPU offline, excluding the costs below: callbacks, stopping all other CPUs,
    /// interrupts.
    pub hotplug: f64,
    /// Number of RCU grace periods per CPU; a count, not seconds.
    pub grace_periods: f64,
    /// One grace period.
    pub grace_period: f64,
    /// One expedited grace period.
    pub grace_period_expedited: f64,
    /// Creating and freeing a domain, its group and the group's capacity, without their masks.
    pub domain: f64,
    /// Combining or comparing one word of two CPU masks.
    pub mask_word: f64,
    /// Advancing to the next member of a domain.
    pub member: f64,
    /// Visiting another CPU's domain, in memory that is probably not cached.
    pub sibling: f64,
    /// Comparing one word of two CPUs' masks at a level, to rule out a partial overlap.
    pub check_word: f64,
    /// debugfs: looking up a CPU's directory.
    pub debugfs_lookup: f64,
    /// debugfs: removing a file or directory.
    pub debugfs_remove: f64,
    /// debugfs: creating a directory.
    pub debugfs_directory: f64,
    /// debugfs: creating a file.
    pub debugfs_file: f64,
    /// sysctl: removing the table, per CPU.
    pub sysctl_remove: f64,
    /// sysctl: registering a table, independent of its contents.
    pub sysctl_table: f64,
    /// sysctl: registering the directories and files of one CPU.
    pub sysctl_cpu: f64,
    /// Signalling that everything has changed, for an export that generates names and contents
    /// on access.
    pub generation: f64,
}

impl Costs {
    /// Returns the cost of registering the sysctl table of `cpus` CPUs.
    pub fn sysctl_register(&self, cpus: f64) -> f64 {
        self.sysctl_table + cpus * self.sysctl_cpu
    }

    /// Costs of a POWER10 with 1920 CPUs, Linux 5.11 to 6.0. The published times of functions
    /// were taken under the function-graph tracer; these costs are without it
    /// ([`TRACING`]).
    ///
    /// The span check takes 1.17 of 2.18 seconds per CPU: the time saved when it was made
    /// linear (ce29a7da84cd). The share of RCU is from a machine of the same make with 400
    /// CPUs: 74.8 and 3.2 seconds for 350 CPUs, with two grace periods per CPU, one for the
    /// lock (cpus_write_lock) and one in sched_cpu_deactivate. Building takes 0.93 seconds.
    /// This value is chosen, as is its division among operations; siblings get the largest
    /// share, because the average CPU costs little more than a third of the first.
    pub const POWER10: Self = Self {
        hotplug: 0.005,
        grace_periods: 2.0,
        grace_period: 0.1025,
        grace_period_expedited: 0.002,
        domain: 5.0e-6,
        mask_word: 0.5e-9,
        member: 5.0e-9,
        sibling: 215.0e-9,
        // All pairs of 1920 CPUs at the five levels that do not span several nodes, 30 words
        // each.
        check_word: 1.17 / (1920.0 * 1920.0 * 5.0 * 30.0),
        debugfs_lookup: 14.526e-6 / TRACING,
        // The directories of a CPU and of its three domains, and their 30 files.
        debugfs_remove: 1092.64e-6 / 34.0 / TRACING,
        debugfs_directory: 29.0e-6 / TRACING,
        debugfs_file: 7.6e-6 / TRACING,
        sysctl_remove: 20.05e-3 / 1920.0 / TRACING,
        // From two points under the tracer: 240 CPUs in 13.9 ms, 1920 in 65.5 ms.
        sysctl_table: 9.5e-3,
        sysctl_cpu: 18.2e-6,
        generation: 1.0e-7,
    };
}
