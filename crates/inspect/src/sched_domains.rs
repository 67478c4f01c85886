//! The scheduler domains of the kernel in a dump.

use std::collections::HashSet;

use bigiron_cpu::source::{DomainSource, SourceError};
use bigiron_cpu::{DomainTree, SchedDomain, Tunables, flags};
use bigiron_format::VirtAddr;

use crate::error::InspectError;
use crate::program::Program;

/// Maximum number of domains of a CPU: a level each for SMT, cluster, cache and package, and
/// one per distance between nodes, of which there are fewer than 256.
const MAX_DOMAINS: usize = 300;
/// Flags fit into an int.
const MAX_FLAGS: usize = 32;
/// Maximum number of CPUs named because their domains cannot be read.
const MAX_WARNINGS: usize = 32;
/// Maximum length of a name.
const MAX_NAME: usize = 64;

/// Reads the scheduler domains of a kernel.
pub struct SchedDomains<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    /// Bits and their names.
    flags: Vec<(u64, String)>,
}

impl<'p, 'k, 's> SchedDomains<'p, 'k, 's> {
    /// Creates a reader for `program`.
    ///
    /// # Errors
    ///
    /// The kernel has none: it was built for one CPU.
    pub fn new(program: &'p Program<'k, 's>) -> Result<Self, InspectError> {
        if !program.has("rq", "sd") {
            return Err(InspectError::NoMember {
                name: "rq.sd".into(),
                option: Some("CONFIG_SMP"),
            });
        }
        let flags = match flags_in_memory(program)? {
            flags if flags.is_empty() => flags::of_types(program.types())?,
            flags => flags,
        };
        Ok(Self { program, flags })
    }

    /// The CPUs that may have domains: all possible CPUs.
    pub fn cpus(&self) -> Result<Vec<usize>, InspectError> {
        match self.program.symbol("__cpu_possible_mask") {
            Ok(mask) => self.program.cpus_in(mask),
            Err(InspectError::NoSymbol { .. }) => Ok((0..self.program.cpu_count()?).collect()),
            Err(error) => Err(error),
        }
    }

    /// Reads the domains of all CPUs that may have any. A CPU whose domains cannot be read is a
    /// warning.
    ///
    /// # Errors
    ///
    /// The CPUs are unknown.
    pub fn tree(&self) -> Result<DomainTree, InspectError> {
        let mut tree = DomainTree {
            source: "a dump".into(),
            ..DomainTree::default()
        };
        let mut failed = 0;
        for cpu in self.cpus()? {
            match self.of(cpu) {
                Ok(chain) => {
                    tree.cpus.insert(cpu as u32, chain);
                }
                Err(error) => {
                    failed += 1;
                    if failed <= MAX_WARNINGS {
                        tree.warnings.push(format!("CPU {cpu}: {error}"));
                    }
                }
            }
        }
        if failed > MAX_WARNINGS {
            let more = failed - MAX_WARNINGS;
            tree.warnings.push(format!("and {more} more CPUs"));
        }
        Ok(tree)
    }

    /// Reads the domains of one CPU, smallest first. An offline CPU has none.
    ///
    /// # Errors
    ///
    /// They cannot be read, or the chain is endless.
    pub fn of(&self, cpu: usize) -> Result<Vec<SchedDomain>, InspectError> {
        let program = self.program;
        let queue = program.per_cpu("runqueues", cpu)?;
        let mut at = program.pointer(queue, "rq", "sd")?;
        let (mut domains, mut seen) = (Vec::new(), HashSet::new());
        while at.0 != 0 {
            if !seen.insert(at) || domains.len() == MAX_DOMAINS {
                return Err(InspectError::Damaged {
                    what: format!("the chain of scheduler domains of CPU {cpu}"),
                    address: at,
                    reason: format!("it continues after {} domains", domains.len()),
                });
            }
            domains.push(self.domain(at, cpu, domains.len())?);
            at = program.pointer(at, "sched_domain", "parent")?;
        }
        Ok(domains)
    }

    fn domain(&self, at: VirtAddr, cpu: usize, number: usize) -> Result<SchedDomain, InspectError> {
        let program = self.program;
        let value = |path: &str| program.value(at, "sched_domain", path);
        let short = |path: &str| value(path).map(|value| value as u32);
        let name = match program.has("sched_domain", "name") {
            true => Some(program.string(VirtAddr(value("name")?), MAX_NAME)?),
            false => None,
        };
        let groups = program.pointer(at, "sched_domain", "groups")?;
        let groups_flags = match groups.0 {
            0 => None,
            _ => Some(flags::names(
                &self.flags,
                program.value(groups, "sched_group", "flags")?,
            )),
        };
        // The cpumask follows the struct (span, include/linux/sched/topology.h).
        let span = match program.has("sched_domain", "span") {
            true => program.member(at, "sched_domain", "span")?,
            false => VirtAddr(at.0.wrapping_add(program.size_of("sched_domain")?)),
        };
        let span = program.cpus_in(span)?;
        Ok(SchedDomain {
            cpu: cpu as u32,
            number,
            level: Some(short("level")?),
            name,
            flags: Some(flags::names(&self.flags, value("flags")?)),
            groups_flags,
            span: Some(span.into_iter().map(|cpu| cpu as u32).collect()),
            tunables: Some(Tunables {
                min_interval: value("min_interval")?,
                max_interval: value("max_interval")?,
                busy_factor: short("busy_factor")?,
                imbalance_pct: short("imbalance_pct")?,
                cache_nice_tries: short("cache_nice_tries")?,
            }),
            max_newidle_lb_cost: Some(value("max_newidle_lb_cost")?),
            counters: Vec::new(),
        })
    }
}

impl DomainSource for SchedDomains<'_, '_, '_> {
    fn read(&self) -> Result<DomainTree, SourceError> {
        self.tree()
            .map_err(|error| SourceError::Other(Box::new(error)))
    }

    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        self.of(cpu as usize)
            .map_err(|error| SourceError::Other(Box::new(error)))
    }
}

/// Reads the names that the kernel itself prints: sd_flag_debug of kernel/sched/topology.c.
/// Their number is not stored, so all consecutive names with the common prefix are used.
fn flags_in_memory(program: &Program) -> Result<Vec<(u64, String)>, InspectError> {
    let mut flags = Vec::new();
    let table = match program.symbol("sd_flag_debug") {
        Ok(table) => table,
        Err(InspectError::NoSymbol { .. }) => return Ok(flags),
        Err(error) => return Err(error),
    };
    let size = program.size_of("sd_flag_debug")?;
    for bit in 0..MAX_FLAGS {
        let entry = VirtAddr(table.0.wrapping_add(size.saturating_mul(bit as u64)));
        let name = program
            .pointer(entry, "sd_flag_debug", "name")
            .and_then(|name| program.string(name, MAX_NAME));
        // Memory after the table is unrelated and may be unreadable.
        match name {
            Ok(name) if is_flag_name(&name) => flags.push((1 << bit, name)),
            _ => break,
        }
    }
    Ok(flags)
}

fn is_flag_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.len() > 3 && name.starts_with("SD_") && name.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_the_flag_prefix_are_accepted() {
        for name in ["SD_NUMA", "SD_ASYM_CPUCAPACITY_FULL"] {
            assert!(is_flag_name(name));
        }
        for name in ["", "SD_", "NUMA", "SD_numa", "SD_A\u{1b}[2J"] {
            assert!(!is_flag_name(name), "{name}");
        }
    }
}
