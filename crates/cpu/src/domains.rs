//! Scheduler domains: for each CPU, a chain of sets of CPUs, from those that share the most to
//! all CPUs. The scheduler balances load within each set
//! (Documentation/scheduler/sched-domains.rst).

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::list::CpuList;

/// Scheduler domain of one CPU. Values that the source does not report are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedDomain {
    /// CPU number.
    pub cpu: u32,
    /// Position in the CPU's chain; 0 is the smallest set.
    pub number: usize,
    /// Kernel's number of the topology level.
    pub level: Option<u32>,
    /// Name of the topology level, such as `SMT`, `MC` or `NUMA`.
    pub name: Option<String>,
    /// Names of the flags, such as `SD_BALANCE_FORK`.
    pub flags: Option<Vec<String>>,
    /// Names of the flags of the first group.
    pub groups_flags: Option<Vec<String>>,
    /// CPUs of the domain.
    pub span: Option<CpuList>,
    /// Values that an administrator can change.
    pub tunables: Option<Tunables>,
    /// Longest time that load balancing by a CPU about to go idle took, in nanoseconds.
    pub max_newidle_lb_cost: Option<u64>,
    /// Counters of load balancing, as in /proc/schedstat (show_schedstat,
    /// kernel/sched/stats.c).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<u64>,
}

/// Values of a domain that an administrator can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunables {
    /// Minimum balancing interval, in milliseconds.
    pub min_interval: u64,
    /// Maximum balancing interval, in milliseconds.
    pub max_interval: u64,
    /// Factor by which the interval is longer while the CPU is busy.
    pub busy_factor: u32,
    /// Load of the busier group above which load is balanced, in percent of the local group's
    /// load.
    pub imbalance_pct: u32,
    /// Failed balancing attempts before tasks with a warm cache are moved.
    pub cache_nice_tries: u32,
}

impl SchedDomain {
    /// Returns the names and contents of the files that debugfs shows for the domain under
    /// `sched/domains/cpuN/domainM` (register_sd, kernel/sched/debug.c), and of `span`, which
    /// debugfs lacks. Files of unknown values are omitted.
    pub fn files(&self) -> Vec<(&'static str, String)> {
        let line = |number: u64| format!("{number}\n");
        let mut files = Vec::new();
        let mut add = |name, text: Option<String>| files.extend(text.map(|text| (name, text)));
        add("name", self.name.as_ref().map(|name| format!("{name}\n")));
        add("flags", self.flags.as_deref().map(flags_text));
        add("groups_flags", self.groups_flags.as_deref().map(flags_text));
        add("level", self.level.map(|level| line(level.into())));
        if let Some(tunables) = &self.tunables {
            for (name, value) in tunables.named() {
                add(name, Some(line(value)));
            }
        }
        add("max_newidle_lb_cost", self.max_newidle_lb_cost.map(line));
        add("span", self.span.as_ref().map(|span| format!("{span}\n")));
        files
    }

    /// Returns the name, or `domainN` if the kernel does not store one.
    pub fn title(&self) -> Cow<'_, str> {
        match &self.name {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("domain{}", self.number)),
        }
    }
}

impl Tunables {
    /// Returns the values by the names of the kernel's files.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        [
            ("min_interval", self.min_interval),
            ("max_interval", self.max_interval),
            ("busy_factor", self.busy_factor.into()),
            ("imbalance_pct", self.imbalance_pct.into()),
            ("cache_nice_tries", self.cache_nice_tries.into()),
        ]
    }
}

/// Formats flags as sd_flags_show does: each is followed by a space.
fn flags_text(flags: &[String]) -> String {
    let mut text = flags.iter().fold(String::new(), |mut text, flag| {
        let _ = write!(text, "{flag} ");
        text
    });
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_format_of_debugfs() {
        let domain = SchedDomain {
            cpu: 1,
            level: Some(2),
            name: Some("MC".into()),
            flags: Some(vec!["SD_BALANCE_NEWIDLE".into(), "SD_NUMA".into()]),
            groups_flags: Some(Vec::new()),
            span: Some("0-3".parse().unwrap()),
            tunables: Some(Tunables {
                min_interval: 4,
                max_interval: 8,
                busy_factor: 16,
                imbalance_pct: 117,
                cache_nice_tries: 1,
            }),
            max_newidle_lb_cost: Some(1 << 40),
            ..SchedDomain::default()
        };
        let files = domain.files();
        let text = |name| {
            let found = files.iter().find(|(file, _)| *file == name);
            found.map(|(_, text)| &text[..])
        };
        assert_eq!(text("flags"), Some("SD_BALANCE_NEWIDLE SD_NUMA \n"));
        assert_eq!(text("groups_flags"), Some("\n"));
        assert_eq!((text("name"), text("level")), (Some("MC\n"), Some("2\n")));
        assert_eq!(text("max_newidle_lb_cost"), Some("1099511627776\n"));
        assert_eq!(text("span"), Some("0-3\n"));
        let nameless = SchedDomain {
            name: None,
            groups_flags: None,
            ..domain
        };
        assert_eq!(nameless.files().len(), files.len() - 2);
    }
}
