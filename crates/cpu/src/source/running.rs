//! The running kernel, read from the most informative source available.

use super::{Bpf, Debugfs, DomainSource, Mark, Schedstat, SourceError};
use crate::domains::SchedDomain;
use crate::tree::DomainTree;

/// The running kernel, read by BPF. Without BPF, it is read from debugfs with the spans of
/// /proc/schedstat, or from only one of the two.
pub struct Running {
    domains: Box<dyn DomainSource + Send + Sync>,
    warnings: Vec<String>,
}

/// Finds the most informative source of the running kernel.
///
/// # Errors
/// No source is readable. The error is that of BPF, which has the fewest requirements.
pub fn running() -> Result<Running, SourceError> {
    match Bpf::load() {
        Ok(bpf) => Ok(Running {
            domains: Box::new(bpf),
            warnings: Vec::new(),
        }),
        Err(error) => match second_best(Debugfs::running(), Schedstat::running()) {
            Some((domains, what)) => Ok(Running {
                domains,
                warnings: vec![format!("BPF is not available: {error}"), what.into()],
            }),
            None => Err(error.into()),
        },
    }
}

/// Returns the better of the readable sources, and its description.
fn second_best(
    debugfs: Debugfs,
    schedstat: Schedstat,
) -> Option<(Box<dyn DomainSource + Send + Sync>, &'static str)> {
    match (debugfs.can_be_read(), schedstat.can_be_read()) {
        (true, true) => Some((
            Box::new(Both { debugfs, schedstat }),
            "read from debugfs instead, with spans from /proc/schedstat",
        )),
        (true, false) => Some((
            Box::new(debugfs),
            "read from debugfs instead, which has no spans",
        )),
        (false, true) => Some((
            Box::new(schedstat),
            "read from /proc/schedstat instead, which has neither flags nor tunables; debugfs has both, but requires \
             root and, since Linux 6.4, sched/verbose set to Y",
        )),
        (false, false) => None,
    }
}

impl Running {
    /// Returns the reason why a better source cannot be read, with advice; empty if this is the
    /// best one.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl DomainSource for Running {
    fn read(&self) -> Result<DomainTree, SourceError> {
        let mut tree = self.domains.read()?;
        tree.warnings.splice(0..0, self.warnings.iter().cloned());
        Ok(tree)
    }

    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        self.domains.chain(cpu)
    }

    fn mark(&self, cpu: u32) -> Result<Option<Mark>, SourceError> {
        self.domains.mark(cpu)
    }
}

/// debugfs and /proc/schedstat, read one after the other.
struct Both {
    debugfs: Debugfs,
    schedstat: Schedstat,
}

impl DomainSource for Both {
    fn read(&self) -> Result<DomainTree, SourceError> {
        let mut tree = self.debugfs.read()?;
        let mut spans = self.schedstat.read()?;
        tree.source = format!("{} and {}", tree.source, spans.source);
        for (cpu, chain) in &mut tree.cpus {
            let spans = spans.cpus.remove(cpu).unwrap_or_default();
            if !add_spans(chain, spans) {
                let text = format!("CPU {cpu}: spans are missing, because its domains changed");
                tree.warnings.push(text);
            }
        }
        Ok(tree)
    }

    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        let mut chain = self.debugfs.chain(cpu)?;
        add_spans(&mut chain, self.schedstat.chain(cpu)?);
        Ok(chain)
    }
}

/// Adds spans and counters to a chain. Returns false if the two evidently are not the same
/// chain.
fn add_spans(chain: &mut [SchedDomain], spans: Vec<SchedDomain>) -> bool {
    let is_one =
        |(one, other): (&SchedDomain, &SchedDomain)| other.name.is_none() || one.name == other.name;
    if chain.len() != spans.len() || !chain.iter().zip(&spans).all(is_one) {
        return false;
    }
    for (domain, other) in chain.iter_mut().zip(spans) {
        domain.span = other.span;
        domain.counters = other.counters;
    }
    true
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn debugfs_and_schedstat_are_combined_without_bpf() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let (domains, stat) = (root.join("domains"), root.join("schedstat"));
        let second = || second_best(Debugfs::at(&domains), Schedstat::at(&stat));
        assert!(second().is_none());
        for cpu in [0, 1] {
            let domains = domains.join(format!("cpu{cpu}/domain0"));
            fs::create_dir_all(&domains).unwrap();
            fs::write(domains.join("name"), "MC\n").unwrap();
        }
        assert!(second().unwrap().1.contains("has no spans"));
        let text = "version 17\ncpu0 0\ndomain0 MC 3 7\ncpu1 0\ndomain0 SMT 3 7\n";
        fs::write(&stat, text).unwrap();
        let (both, what) = second().unwrap();
        assert!(what.contains("with spans"), "{what}");
        let tree = both.read().unwrap();
        let span = |cpu| tree.cpus[&cpu][0].span.as_ref().map(ToString::to_string);
        assert_eq!(span(0), Some("0-1".into()));
        assert_eq!(span(1), None, "different name: the domains changed");
        assert!(tree.warnings[0].contains("CPU 1"), "{:?}", tree.warnings);
        assert_eq!(both.chain(0).unwrap(), tree.cpus[&0]);
        assert!(both.chain(9).unwrap().is_empty());
        fs::remove_dir_all(&domains).unwrap();
        let (alone, what) = second().unwrap();
        assert!(what.contains("neither flags"), "{what}");
        assert_eq!(alone.chain(1).unwrap()[0].title(), "SMT");
        assert_eq!(alone.mark(1).unwrap(), None);
    }
}
