//! Domains exported by the kernel's debugfs, or by its sysctl before 5.13: names, flags and
//! tunables, without spans (register_sd, kernel/sched/debug.c).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{DomainSource, SourceError};
use crate::domains::{SchedDomain, Tunables};
use crate::tree::DomainTree;

/// Maximum number of domains read per CPU; no kernel has as many.
const MAX_DOMAINS: usize = 300;

/// Directory of domains in debugfs, the old one under /proc/sys, or a copy.
#[derive(Clone, Debug)]
pub struct Debugfs {
    root: PathBuf,
}

impl Debugfs {
    /// Returns the directory of the running kernel.
    pub fn running() -> Self {
        Self::at("/sys/kernel/debug/sched/domains")
    }

    /// Returns a directory at another path.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

impl DomainSource for Debugfs {
    fn read(&self) -> Result<DomainTree, SourceError> {
        let mut tree = DomainTree {
            source: self.root.display().to_string(),
            ..DomainTree::default()
        };
        let entries = fs::read_dir(&self.root).map_err(|cause| SourceError::File {
            path: self.root.clone(),
            cause,
            next: "mount debugfs and, since Linux 6.4, set sched/verbose to Y; or try another source",
        })?;
        let name = |entry: fs::DirEntry| entry.file_name().to_str().map(str::to_owned);
        for name in entries.flatten().filter_map(name) {
            let Some(cpu) = name.strip_prefix("cpu").and_then(|cpu| cpu.parse().ok()) else {
                continue;
            };
            let chain = self.chain_at(cpu, &self.root.join(&name))?;
            tree.cpus.insert(cpu, chain);
        }
        Ok(tree)
    }

    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        self.chain_at(cpu, &self.root.join(format!("cpu{cpu}")))
    }
}

impl Debugfs {
    /// Returns true if the domains of a CPU can be read. Since 6.4 they exist only while
    /// sched/verbose is Y, and a locked-down kernel shows names without contents.
    pub(super) fn can_be_read(&self) -> bool {
        let first = fs::read_dir(&self.root).ok().and_then(|mut all| all.next());
        let path = first.and_then(Result::ok).map(|entry| entry.path());
        path.is_some_and(|path| self.chain_at(0, &path).is_ok())
    }

    fn chain_at(&self, cpu: u32, directory: &Path) -> Result<Vec<SchedDomain>, SourceError> {
        let mut chain = Vec::new();
        for number in 0..MAX_DOMAINS {
            let directory = directory.join(format!("domain{number}"));
            if !directory.is_dir() {
                break;
            }
            chain.push(domain(cpu, number, &directory)?);
        }
        Ok(chain)
    }
}

fn domain(cpu: u32, number: usize, directory: &Path) -> Result<SchedDomain, SourceError> {
    let text = |name: &str| match fs::read_to_string(directory.join(name)) {
        Ok(text) => Ok(Some(text.trim_end().to_owned())),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(SourceError::File {
            path: directory.join(name),
            next: match cause.kind() {
                io::ErrorKind::PermissionDenied => {
                    "this requires root, and a kernel that is not locked down; or try another source"
                }
                _ => "domains disappear when CPUs go offline or online; try again",
            },
            cause,
        }),
    };
    let value = |name: &str| -> Result<Option<u64>, SourceError> {
        let Some(text) = text(name)? else {
            return Ok(None);
        };
        let wrong = |_| SourceError::Line {
            path: directory.join(name),
            line: 1,
            reason: format!("invalid number {text:?}"),
        };
        text.parse().map(Some).map_err(wrong)
    };
    let flags = |name: &str| -> Result<Option<Vec<String>>, SourceError> {
        let words = |text: String| text.split_ascii_whitespace().map(str::to_owned).collect();
        Ok(text(name)?.map(words))
    };
    let short = |name: &str| Ok::<_, SourceError>(value(name)?.map(|value| value as u32));
    let tunables = match (value("min_interval")?, value("max_interval")?) {
        (Some(min_interval), Some(max_interval)) => Some(Tunables {
            min_interval,
            max_interval,
            busy_factor: short("busy_factor")?.unwrap_or(0),
            imbalance_pct: short("imbalance_pct")?.unwrap_or(0),
            cache_nice_tries: short("cache_nice_tries")?.unwrap_or(0),
        }),
        _ => None,
    };
    Ok(SchedDomain {
        cpu,
        number,
        level: short("level")?,
        name: text("name")?,
        flags: flags("flags")?,
        groups_flags: flags("groups_flags")?,
        span: None,
        tunables,
        max_newidle_lb_cost: value("max_newidle_lb_cost")?,
        counters: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_the_kernels_format_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let domain = SchedDomain {
            cpu: 3,
            name: Some("MC".into()),
            level: Some(1),
            flags: Some(vec!["SD_NUMA".into()]),
            tunables: Some(Tunables {
                min_interval: 2,
                max_interval: 4,
                busy_factor: 16,
                imbalance_pct: 117,
                cache_nice_tries: 1,
            }),
            max_newidle_lb_cost: Some(7),
            ..SchedDomain::default()
        };
        let path = directory.path().join("cpu3/domain0");
        fs::create_dir_all(&path).unwrap();
        fs::create_dir_all(directory.path().join("cpu4")).unwrap();
        for (name, text) in domain.files() {
            fs::write(path.join(name), text).unwrap();
        }
        let source = Debugfs::at(directory.path());
        let tree = source.read().unwrap();
        assert_eq!(tree.cpus[&3], [domain]);
        assert!(tree.cpus[&4].is_empty());
        fs::write(path.join("level"), "high").unwrap();
        let error = source.read().unwrap_err().to_string();
        assert!(error.contains("domain0/level:1"), "{error}");
    }

    #[test]
    fn missing_debugfs_is_reported_with_an_alternative() {
        let error = Debugfs::at("/nonexistent/domains").read().unwrap_err();
        assert!(error.to_string().contains("try another source"), "{error}");
    }
}
