//! What differs between kernels, and what may be done about it.

use serde::Serialize;

/// How a kernel checks that levels do not overlap in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpanCheck {
    /// Each CPU with each other: 6.1.
    Pairs,
    /// Each pair of CPUs once: 6.12.
    HalfOfPairs,
    /// Each CPU once (f55dac1dafb3, ce29a7da84cd): 6.16.
    Once,
}

/// How domains are shown to user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Export {
    /// Not at all: since 6.4, unless sched/verbose is on.
    Off,
    /// All files of all CPUs in debugfs, made anew each time: 5.13 to 6.3.
    Debugfs,
    /// The same under /proc/sys: until 5.12.
    Sysctl,
    /// debugfs, but only the CPUs whose domains changed in kind.
    Incremental,
    /// Made when somebody looks: a number says that all has changed.
    Lazy,
}

/// Whether somebody has RCU hurry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rcu {
    /// Nobody.
    Normal,
    /// /sys/kernel/rcu_expedited.
    Expedited,
}

/// A kernel, and how CPUs are taken offline there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// How levels are checked.
    pub span_check: SpanCheck,
    /// How domains are shown.
    pub export: Export,
    /// Whether RCU hurries.
    pub rcu: Rcu,
    /// Whether all CPUs that go are first set apart in an isolated partition (cgroup cpuset), so that
    /// domains are built once for all of them and, when the partition goes, once more. A CPU without
    /// domains leaves the list of domains as it is, and partition_sched_domains_locked builds none.
    pub batched: bool,
}

/// A way to show domains, and to take CPUs offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// A word for it.
    pub key: &'static str,
    /// What it is.
    pub what: &'static str,
    /// How domains are shown.
    pub export: Export,
    /// Whether CPUs are set apart first.
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

/// All of them.
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
        "debugfs, what changed",
        Export::Incremental,
        false,
    ),
    strategy("off", "none (verbose off)", Export::Off, false),
    strategy("lazy", "when looked at", Export::Lazy, false),
    strategy(
        "batched",
        "debugfs, CPUs set apart first",
        Export::Debugfs,
        true,
    ),
    strategy(
        "batched-off",
        "none, CPUs set apart first",
        Export::Off,
        true,
    ),
];

/// Kernels by what matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum KernelName {
    /// Until 5.12: sysctl.
    #[serde(rename = "5.12")]
    Linux5_12,
    /// 5.13 to 6.3: debugfs.
    #[serde(rename = "6.1")]
    Linux6_1,
    /// 6.4 to 6.15: nothing is shown unless sched/verbose is on.
    #[serde(rename = "6.12")]
    Linux6_12,
    /// Since 6.16: and the check of spans is linear.
    #[serde(rename = "6.16")]
    Linux6_16,
}

impl KernelName {
    /// What it does if nobody does anything about it.
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

    /// By what uname says, such as `6.1.0-30-amd64`; the newest, if it is no number.
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

    /// Its number.
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
    fn releases_is_complete_by_what_changed() {
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
