//! /proc/schedstat: spans and counters, without flags (show_schedstat, kernel/sched/stats.c).

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::{DomainSource, SourceError};
use crate::domains::SchedDomain;
use crate::list::CpuList;
use crate::tree::DomainTree;

/// Supported versions: 15 since 2.6.25, 16 since 6.14, 17 since 6.15.
const VERSIONS: [u32; 3] = [15, 16, 17];

/// /proc/schedstat, or a copy of it.
#[derive(Clone, Debug)]
pub struct Schedstat {
    path: PathBuf,
}

impl Schedstat {
    /// Returns the file of the running kernel.
    pub fn running() -> Self {
        Self::at("/proc/schedstat")
    }

    /// Returns a copy at another path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Parses the contents of the file.
    ///
    /// # Errors
    /// A line has an unexpected format.
    pub fn parse(&self, text: &str) -> Result<DomainTree, SourceError> {
        let cpus = parse(text).map_err(|(line, reason)| SourceError::Line {
            path: self.path.clone(),
            line,
            reason,
        })?;
        Ok(DomainTree {
            source: self.path.display().to_string(),
            cpus,
            warnings: Vec::new(),
        })
    }

    /// Returns true if the file can be opened.
    pub(super) fn can_be_read(&self) -> bool {
        fs::File::open(&self.path).is_ok()
    }
}

impl DomainSource for Schedstat {
    fn read(&self) -> Result<DomainTree, SourceError> {
        let text = fs::read_to_string(&self.path).map_err(|cause| SourceError::File {
            path: self.path.clone(),
            cause,
            next: "the kernel may lack CONFIG_SCHEDSTATS; try another source",
        })?;
        self.parse(&text)
    }
}

/// Returns the domains of each CPU, or the number of the first invalid line and the reason.
fn parse(text: &str) -> Result<BTreeMap<u32, Vec<SchedDomain>>, (usize, String)> {
    let mut cpus: BTreeMap<u32, Vec<SchedDomain>> = BTreeMap::new();
    let (mut version, mut current) = (None, None);
    for (at, line) in text.lines().enumerate() {
        let wrong = |reason: &str| (at + 1, reason.to_owned());
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or("");
        if first == "version" {
            let number: Option<u32> = words.next().and_then(|word| word.parse().ok());
            let known = number.filter(|number| VERSIONS.contains(number));
            version = Some(known.ok_or_else(|| wrong("expected version 15, 16 or 17"))?);
        } else if let Some(cpu) = first.strip_prefix("cpu") {
            let cpu: u32 = cpu.parse().map_err(|_| wrong("expected cpuN"))?;
            cpus.insert(cpu, Vec::new());
            current = Some(cpu);
        } else if let Some(number) = first.strip_prefix("domain") {
            let version = version.ok_or_else(|| wrong("expected a version first"))?;
            let cpu = current.ok_or_else(|| wrong("expected cpuN before its domains"))?;
            let chain = cpus.entry(cpu).or_default();
            if number.parse() != Ok(chain.len()) {
                return Err(wrong(&format!(
                    "expected domain{} of CPU {cpu}",
                    chain.len()
                )));
            }
            let name = match version {
                17.. => Some(
                    words
                        .next()
                        .ok_or_else(|| wrong("expected a name"))?
                        .to_owned(),
                ),
                _ => None,
            };
            let mask = words
                .next()
                .ok_or_else(|| wrong("expected a mask of CPUs"))?;
            let span = CpuList::from_mask(mask).map_err(|error| wrong(&error.to_string()))?;
            let counters: Result<Vec<u64>, _> = words.map(str::parse).collect();
            chain.push(SchedDomain {
                cpu,
                number: chain.len(),
                name,
                span: Some(span),
                counters: counters.map_err(|_| wrong("expected counters"))?,
                ..SchedDomain::default()
            });
        }
    }
    match version {
        Some(_) => Ok(cpus),
        None => Err((1, "expected `version` and a number".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_versions_are_parsed() {
        let old = "version 15\ntimestamp 4295\ncpu0 0 0 1\ndomain0 3 1 2 3\ndomain1 00000000,0000000f 4\ncpu1 0\ndomain0 3\n";
        let cpus = parse(old).unwrap();
        assert_eq!(cpus.len(), 2);
        assert_eq!(cpus[&0][1].span.as_ref().unwrap().to_string(), "0-3");
        assert_eq!(cpus[&0][0].counters, [1, 2, 3]);
        assert_eq!(cpus[&0][0].title(), "domain0");
        let new = "version 17\ncpu0 0\ndomain0 SMT 3 9\n";
        assert_eq!(parse(new).unwrap()[&0][0].title(), "SMT");
    }

    #[test]
    fn invalid_lines_are_reported_by_number() {
        for (text, line) in [
            ("", 1),
            ("version 14\n", 1),
            ("version 15\ndomain0 3\n", 2),
            ("version 15\ncpu0\ndomain1 3\n", 3),
            ("version 15\ncpu0\ndomain0 xyz\n", 3),
            ("version 15\ncpu0\ndomain0 3 -1\n", 3),
            ("version 15\ncpuX\n", 2),
        ] {
            assert_eq!(parse(text).unwrap_err().0, line, "{text}");
        }
    }
}
