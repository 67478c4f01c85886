//! What basic operations cost.

use serde::{Deserialize, Serialize};

/// Masks of CPUs that are gone through for a domain: three are zeroed with their structures, then
/// `and`, two weights, a subset, an equality, two copies for its group and that one's weight.
pub const MASKS_OF_A_DOMAIN: f64 = 11.0;

/// Seconds that basic operations take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Taking one CPU down, without what is below: callbacks, stopping all others, interrupts.
    pub hotplug: f64,
    /// How many grace periods of RCU it waits for: a number, not seconds.
    pub grace_periods: f64,
    /// One of them.
    pub grace_period: f64,
    /// The same while grace periods are expedited.
    pub grace_period_expedited: f64,
    /// Making a domain, its group and the group's capacity, and freeing them, without their masks.
    pub domain: f64,
    /// Combining or comparing a word of two masks of CPUs.
    pub mask_word: f64,
    /// Going to the next member of a domain.
    pub member: f64,
    /// Looking at another CPU's domain, in memory that is likely in no cache.
    pub sibling: f64,
    /// Comparing a word of two CPUs' masks of a level, to see that they do not overlap in part.
    pub check_word: f64,
    /// debugfs: looking for a CPU's directory.
    pub debugfs_lookup: f64,
    /// debugfs: removing a file or directory.
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
    /// function-graph tracer; here they are without it ([`super::TRACING`]).
    ///
    /// The check of spans takes 1.17 of 2.18 seconds for a CPU, since that is how much faster it
    /// became when it was made linear (ce29a7da84cd). RCU's part is from 400 CPUs of the same make:
    /// 74.8 and 3.2 seconds for 350 CPUs, with the two grace periods that a CPU waits for, one for
    /// the lock (cpus_write_lock) and one in sched_cpu_deactivate. Building takes 0.93 seconds: this is
    /// chosen, as is how much of it goes to which operation; most goes to siblings, since the mean CPU
    /// costs little more than a third of the first.
    pub const POWER10: Self = Self {
        hotplug: 0.005,
        grace_periods: 2.0,
        grace_period: 0.1025,
        grace_period_expedited: 0.002,
        domain: 5.0e-6,
        mask_word: 0.5e-9,
        member: 5.0e-9,
        sibling: 215.0e-9,
        // The pairs of 1920 CPUs at the five levels that are not of several nodes, 30 words each.
        check_word: 1.17 / (1920.0 * 1920.0 * 5.0 * 30.0),
        debugfs_lookup: 14.526e-6 / super::TRACING,
        // A CPU's directory, three domains' and their 30 files.
        debugfs_remove: 1092.64e-6 / 34.0 / super::TRACING,
        debugfs_directory: 29.0e-6 / super::TRACING,
        debugfs_file: 7.6e-6 / super::TRACING,
        sysctl_remove: 20.05e-3 / 1920.0 / super::TRACING,
        // Two points: 240 CPUs in 13.9 ms, 1920 in 65.5 ms under the tracer.
        sysctl_table: 9.5e-3,
        sysctl_cpu: 18.2e-6,
        generation: 1.0e-7,
    };
}
