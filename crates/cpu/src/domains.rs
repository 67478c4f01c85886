//! Scheduler domains: for each CPU a chain of sets of CPUs, from those that share
//! most to all, among which the scheduler balances load
//! (Documentation/scheduler/sched-domains.rst).

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::list::CpuList;

/// A scheduler domain of one CPU. What its source does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedDomain {
    /// The CPU.
    pub cpu: u32,
    /// Its place in the chain of the CPU: 0 is the smallest set.
    pub number: usize,
    /// The kernel's number for the level of topology that it came from.
    pub level: Option<u32>,
    /// That level's name, such as `SMT`, `MC` or `NUMA`.
    pub name: Option<String>,
    /// What is balanced there: names of flags, such as `SD_BALANCE_FORK`.
    pub flags: Option<Vec<String>>,
    /// The flags of the first of its groups.
    pub groups_flags: Option<Vec<String>>,
    /// The CPUs in it.
    pub span: Option<CpuList>,
    /// What an administrator may change.
    pub tunables: Option<Tunables>,
    /// The most that balancing by a CPU about to go idle took: nanoseconds.
    pub max_newidle_lb_cost: Option<u64>,
    /// Counters of balancing, as /proc/schedstat has them (show_schedstat, kernel/sched/stats.c).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<u64>,
}

/// What an administrator may change of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunables {
    /// Balanced at most so often: milliseconds between.
    pub min_interval: u64,
    /// Balanced at least so often: milliseconds between.
    pub max_interval: u64,
    /// How much longer the interval is while the CPU is busy.
    pub busy_factor: u32,
    /// How much busier another group must be: per cent of this one's load.
    pub imbalance_pct: u32,
    /// Attempts that leave alone what has a warm cache.
    pub cache_nice_tries: u32,
}

impl SchedDomain {
    /// Names and texts of the files that the kernel's debugfs shows for it under
    /// `sched/domains/cpuN/domainM` (register_sd, kernel/sched/debug.c), and `span`,
    /// which debugfs lacks; without those that are not known.
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

    /// Its name, or `domainN` where the kernel keeps none.
    pub fn title(&self) -> Cow<'_, str> {
        match &self.name {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("domain{}", self.number)),
        }
    }
}

impl Tunables {
    /// Their values by the names of the kernel's files.
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

/// As sd_flags_show writes them: a space behind each.
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
    fn files_are_as_debugfs_writes_them() {
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
