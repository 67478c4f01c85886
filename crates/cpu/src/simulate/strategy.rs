//! Kernels, and strategies that make hotplug faster.

use serde::Serialize;

/// Kernel's method of checking that levels do not partially overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpanCheck {
    /// Each CPU with every other: 6.1.
    Pairs,
    /// Each pair of CPUs once: 6.12.
    HalfOfPairs,
    /// Each CPU once (f55dac1dafb3, ce29a7da84cd): 6.16.
    Once,
}

/// Method of exporting domains to user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Export {
    /// No export: since 6.4, unless sched/verbose is on.
    Off,
    /// All files of all CPUs in debugfs, recreated each time: 5.13 to 6.3.
    Debugfs,
    /// The same under /proc/sys: until 5.12.
    Sysctl,
    /// debugfs, but only CPUs whose domains changed in kind.
    Incremental,
    /// Generated on access; a counter signals that everything has changed.
    Lazy,
}

/// RCU mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rcu {
    /// Normal grace periods.
    Normal,
    /// Expedited grace periods (/sys/kernel/rcu_expedited).
    Expedited,
}

/// Kernel, and the method of taking CPUs offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// Span check.
    pub span_check: SpanCheck,
    /// Export of domains.
    pub export: Export,
    /// RCU mode.
    pub rcu: Rcu,
    /// True if all CPUs are first moved to an isolated partition (cgroup cpuset), so that
    /// domains are built once for all of them, and once more when the partition is removed. A
    /// CPU without domains does not change the list of domains, and
    /// partition_sched_domains_locked builds none.
    pub batched: bool,
}

/// Strategy of exporting domains and of taking CPUs offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// Name.
    pub key: &'static str,
    /// Description.
    pub what: &'static str,
    /// Export of domains.
    pub export: Export,
    /// True if CPUs are isolated first.
    pub batched: bool,
}

const fn strategy(
    key: &'static str,
    what: &'static str,
    export: Export,
    batched: bool,
) -> Strategy {
    Strategy {
        key,
        what,
        export,
        batched,
    }
}

/// All strategies.
pub const STRATEGIES: [Strategy; 7] = [
    strategy(
        "debugfs",
        "debugfs, all (5.13 to 6.3)",
        Export::Debugfs,
        false,
    ),
    strategy("sysctl", "sysctl, all (until 5.12)", Export::Sysctl, false),
    strategy(
        "incremental",
        "debugfs, changed CPUs only",
        Export::Incremental,
        false,
    ),
    strategy("off", "none (verbose off)", Export::Off, false),
    strategy("lazy", "on access", Export::Lazy, false),
    strategy(
        "batched",
        "debugfs, CPUs isolated first",
        Export::Debugfs,
        true,
    ),
    strategy(
        "batched-off",
        "none, CPUs isolated first",
        Export::Off,
        true,
    ),
];

/// Kernels, grouped by the differences that matter to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum KernelName {
    /// Until 5.12: sysctl.
    #[serde(rename = "5.12")]
    Linux5_12,
    /// 5.13 to 6.3: debugfs.
    #[serde(rename = "6.1")]
    Linux6_1,
    /// 6.4 to 6.15: no export unless sched/verbose is on.
    #[serde(rename = "6.12")]
    Linux6_12,
    /// Since 6.16: as before, with a linear span check.
    #[serde(rename = "6.16")]
    Linux6_16,
}

impl KernelName {
    /// Returns the kernel with its defaults.
    pub fn kernel(self) -> Kernel {
        let (export, span_check) = match self {
            Self::Linux5_12 => (Export::Sysctl, SpanCheck::Pairs),
            Self::Linux6_1 => (Export::Debugfs, SpanCheck::Pairs),
            Self::Linux6_12 => (Export::Off, SpanCheck::HalfOfPairs),
            Self::Linux6_16 => (Export::Off, SpanCheck::Once),
        };
        Kernel {
            span_check,
            export,
            rcu: Rcu::Normal,
            batched: false,
        }
    }

    /// Returns the kernel of a uname release such as `6.1.0-30-amd64`; the newest if the
    /// release does not start with a version.
    pub fn of_release(release: &str) -> Self {
        let number = |text: &str| {
            let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse::<u32>().ok()
        };
        let mut parts = release.split('.').map(number);
        match (parts.next().flatten(), parts.next().flatten()) {
            (Some(major), Some(minor)) if (major, minor) < (5, 13) => Self::Linux5_12,
            (Some(major), Some(minor)) if (major, minor) < (6, 4) => Self::Linux6_1,
            (Some(major), Some(minor)) if (major, minor) < (6, 16) => Self::Linux6_12,
            _ => Self::Linux6_16,
        }
    }

    /// Returns the version number.
    pub fn number(self) -> &'static str {
        match self {
            Self::Linux5_12 => "5.12",
            Self::Linux6_1 => "6.1",
            Self::Linux6_12 => "6.12",
            Self::Linux6_16 => "6.16",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_map_to_kernels() {
        for (release, kernel) in [
            ("4.19.0", KernelName::Linux5_12),
            ("5.12.3-custom", KernelName::Linux5_12),
            ("6.1.0-30-amd64", KernelName::Linux6_1),
            ("6.12.117+deb12-cloud-amd64", KernelName::Linux6_12),
            ("6.16-rc3", KernelName::Linux6_16),
            ("7.0.1", KernelName::Linux6_16),
            ("", KernelName::Linux6_16),
        ] {
            assert_eq!(KernelName::of_release(release), kernel, "{release}");
        }
    }
}
