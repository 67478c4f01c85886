//! Scheduling domains: for each CPU a chain of sets of CPUs, from those that share
//! most to all, among which the scheduler balances load
//! (Documentation/scheduler/sched-domains.rst).

use std::fmt::Write as _;

use crate::list::CpuList;

/// A scheduling domain of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedDomain {
    /// The CPU.
    pub cpu: u32,
    /// Its place in the chain of the CPU: 0 is the smallest set.
    pub number: usize,
    /// The kernel's number for the level of topology that it came from.
    pub level: u32,
    /// That level's name, such as `SMT`, `MC` or `NUMA`; `None` where the kernel keeps none.
    pub name: Option<String>,
    /// What is balanced there: names of flags, such as `SD_BALANCE_FORK`.
    pub flags: Vec<String>,
    /// The flags of the first of its groups; `None` where they are not known.
    pub groups_flags: Option<Vec<String>>,
    /// The CPUs in it.
    pub span: CpuList,
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
    /// The most that balancing by a CPU about to go idle took: nanoseconds.
    pub max_newidle_lb_cost: u64,
}

impl SchedDomain {
    /// Names and texts of the files that the kernel's debugfs shows for it under
    /// `sched/domains/cpuN/domainM` (register_sd, kernel/sched/debug.c), and `span`,
    /// which debugfs lacks.
    pub fn files(&self) -> Vec<(&'static str, String)> {
        let number = |number: u64| format!("{number}\n");
        let mut files = Vec::new();
        if let Some(name) = &self.name {
            files.push(("name", format!("{name}\n")));
        }
        files.push(("flags", flags_text(&self.flags)));
        if let Some(flags) = &self.groups_flags {
            files.push(("groups_flags", flags_text(flags)));
        }
        files.extend([
            ("level", number(self.level.into())),
            ("min_interval", number(self.min_interval)),
            ("max_interval", number(self.max_interval)),
            ("busy_factor", number(self.busy_factor.into())),
            ("imbalance_pct", number(self.imbalance_pct.into())),
            ("cache_nice_tries", number(self.cache_nice_tries.into())),
            ("max_newidle_lb_cost", number(self.max_newidle_lb_cost)),
            ("span", format!("{}\n", self.span)),
        ]);
        files
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
            number: 0,
            level: 2,
            name: Some("MC".into()),
            flags: vec!["SD_BALANCE_NEWIDLE".into(), "SD_NUMA".into()],
            groups_flags: Some(Vec::new()),
            span: "0-3".parse().unwrap(),
            min_interval: 4,
            max_interval: 8,
            busy_factor: 16,
            imbalance_pct: 117,
            cache_nice_tries: 1,
            max_newidle_lb_cost: 1 << 40,
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
