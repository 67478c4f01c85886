//! Why a machine stopped, or does not go on: findings, each with the evidence that the dump has.
//!
//! Each finding has a file of its own, which names the kernel's sources and the members that it
//! relies on; `RULES` lists them. A kernel that lacks a member skips the finding and says so.
//! docs/diagnose.md tells how to read a finding, and how to add one.

mod bad_address;
mod bad_page;
mod blocked;
mod cpu_states;
mod dead_owner;
mod deadlock;
mod evidence;
mod failed_instruction;
mod fault;
mod file_system;
mod file_system_users;
mod finding;
mod flipped_bit;
mod frozen;
mod hard_lockup;
mod hardware;
mod interrupt_storm;
mod io;
mod list_corruption;
mod list_poison;
mod lock_held;
mod log;
mod machine_check;
mod memory_files;
mod memory_report;
mod multipath;
mod nfs;
mod null_pointer;
mod out_of_memory;
mod panicked;
mod rcu_reader;
mod refcount;
mod resources;
mod slab_report;
mod soft_lockup;
mod softirq_storm;
mod stack_end;
mod stack_overflow;
mod stuck_work;
mod suspended;
mod timer_storm;
mod use_after_free;
mod waiting;

use bigiron_helpers::Stop;
use serde::Serialize;

use crate::error::InspectError;
use crate::program::Program;
use crate::source_lines::SourceLines;
use crate::waits::Waits;
use evidence::{Evidence, Find};
pub use finding::{Finding, Place, Sure, WEIGHTY};

/// A finding's search.
struct Rule {
    /// Name, as the kind of most of its findings.
    name: &'static str,
    /// Returns the findings; an error is the reason why this kernel cannot be searched for it.
    find: Find,
}

/// All findings, in the order in which they are searched for.
const RULES: &[Rule] = &[
    Rule {
        name: hardware::KIND,
        find: hardware::find,
    },
    Rule {
        name: stack_overflow::KIND,
        find: stack_overflow::find,
    },
    Rule {
        name: stack_end::KIND,
        find: stack_end::find,
    },
    Rule {
        name: slab_report::KIND,
        find: slab_report::find,
    },
    Rule {
        name: list_corruption::KIND,
        find: list_corruption::find,
    },
    Rule {
        name: refcount::KIND,
        find: refcount::find,
    },
    Rule {
        name: bad_page::KIND,
        find: bad_page::find,
    },
    Rule {
        name: use_after_free::KIND,
        find: use_after_free::find,
    },
    Rule {
        name: list_poison::KIND,
        find: list_poison::find,
    },
    Rule {
        name: flipped_bit::KIND,
        find: flipped_bit::find,
    },
    Rule {
        name: null_pointer::KIND,
        find: null_pointer::find,
    },
    Rule {
        name: out_of_memory::KIND,
        find: out_of_memory::find,
    },
    Rule {
        name: bad_address::KIND,
        find: bad_address::find,
    },
    Rule {
        name: deadlock::KIND,
        find: deadlock::find,
    },
    Rule {
        name: dead_owner::KIND,
        find: dead_owner::find,
    },
    Rule {
        name: timer_storm::KIND,
        find: timer_storm::find,
    },
    Rule {
        name: interrupt_storm::KIND,
        find: interrupt_storm::find,
    },
    Rule {
        name: softirq_storm::KIND,
        find: softirq_storm::find,
    },
    Rule {
        name: hard_lockup::KIND,
        find: hard_lockup::find,
    },
    Rule {
        name: rcu_reader::KIND,
        find: rcu_reader::find,
    },
    Rule {
        name: soft_lockup::KIND,
        find: soft_lockup::find,
    },
    Rule {
        name: file_system::KIND,
        find: file_system::find,
    },
    Rule {
        name: nfs::KIND,
        find: nfs::find,
    },
    Rule {
        name: frozen::KIND,
        find: frozen::find,
    },
    Rule {
        name: suspended::KIND,
        find: suspended::find,
    },
    Rule {
        name: multipath::KIND,
        find: multipath::find,
    },
    Rule {
        name: io::KIND,
        find: io::find,
    },
    Rule {
        name: stuck_work::KIND,
        find: stuck_work::find,
    },
    Rule {
        name: lock_held::KIND,
        find: lock_held::find,
    },
    Rule {
        name: blocked::KIND,
        find: blocked::find,
    },
    Rule {
        name: resources::KIND,
        find: resources::find,
    },
    Rule {
        name: panicked::KIND,
        find: panicked::find,
    },
];

/// Maximum number of findings of a kind. A thousand locks that a thousand tasks hold are one
/// cause for whoever reads of the first ones.
const MAX_OF_A_KIND: usize = 20;

/// What was found in a dump.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Diagnosis {
    /// The findings, the weightiest first; of each kind at most 20.
    pub findings: Vec<Finding>,
    /// Kinds that have more findings.
    pub left_out: Vec<LeftOut>,
    /// Findings that this kernel was not searched for, with the reasons.
    pub skipped: Vec<Skipped>,
    /// Why source lines are not known; empty unless they were searched for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub no_source: Vec<String>,
    /// True if every finding was searched for to the end; false after the time limit.
    pub complete: bool,
}

/// Version of [`Diagnosis::told`].
const VERSION: u32 = 1;

/// A diagnosis with the version of its structure.
#[derive(Serialize)]
struct Told<'d> {
    /// Changes if a field gets another meaning.
    version: u32,
    #[serde(flatten)]
    diagnosis: &'d Diagnosis,
}

/// Findings that are left out because there are many of their kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Their kind.
    pub finding: &'static str,
    /// Their number.
    pub count: usize,
}

/// A finding that this kernel was not searched for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Name of the finding.
    pub finding: &'static str,
    /// Why: a symbol or member that the kernel does not have.
    pub reason: String,
}

impl Diagnosis {
    /// Searches a kernel. If `stop` is set, ends with what was found until then.
    pub fn of(program: &Program, stop: &Stop) -> Self {
        Self::with_waits(program, stop).0
    }

    /// As [`Self::of`], with the waits on which findings rely.
    pub fn with_waits(program: &Program, stop: &Stop) -> (Self, Result<Waits, InspectError>) {
        let mut evidence = Evidence::new(program, stop);
        let mut found = Self::default();
        for rule in RULES {
            if stop.is_set() {
                break;
            }
            match (rule.find)(&evidence) {
                Ok(findings) if findings.is_empty() => {}
                Ok(findings) => {
                    evidence.found.push(rule.name);
                    found.add(rule.name, findings);
                }
                Err(error) => found.skipped.push(Skipped {
                    finding: rule.name,
                    reason: error.to_string(),
                }),
            }
        }
        found.complete = !stop.is_set();
        // The order of rules decides between equal weights.
        let weight = |finding: &Finding| std::cmp::Reverse(finding.weight);
        found.findings.sort_by_key(weight);
        (found, evidence.into_waits())
    }

    /// Adds the findings of a kind, the weightiest of them if there are many.
    fn add(&mut self, finding: &'static str, mut findings: Vec<Finding>) {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.weight));
        let count = findings.len().saturating_sub(MAX_OF_A_KIND);
        findings.truncate(MAX_OF_A_KIND);
        self.findings.extend(findings);
        if count > 0 {
            self.left_out.push(LeftOut { finding, count });
        }
    }

    /// Adds the source lines of the places at which the kernel failed, as far as there is debug
    /// information of them; `stop` ends that.
    pub fn add_source_lines(&mut self, program: &Program, lines: &SourceLines, stop: &Stop) {
        for finding in &mut self.findings {
            let Some(address) = finding.failed_at.filter(|_| !stop.is_set()) else {
                continue;
            };
            match lines.at(&program.renewed(), address) {
                Ok(source) => finding.source = source,
                Err(reason) if !self.no_source.contains(&reason) => self.no_source.push(reason),
                Err(_) => {}
            }
        }
    }

    /// The output of `bigiron diagnose --json` (docs/diagnose.md).
    pub fn told(&self) -> impl Serialize + '_ {
        Told {
            version: VERSION,
            diagnosis: self,
        }
    }

    /// Returns true if a finding explains why the machine stopped.
    pub fn is_weighty(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.weight >= WEIGHTY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_findings_of_a_kind_are_counted_and_the_weightiest_shown() {
        let finding = |weight| Finding::new("blocked", weight, Sure::Certain, String::new());
        let mut found = Diagnosis::default();
        found.add("blocked", (0..50).map(finding).collect());
        found.add("frozen", vec![finding(3)]);
        let weights: Vec<_> = found.findings.iter().map(|found| found.weight).collect();
        let expected: Vec<_> = (30..50).rev().chain([3]).collect();
        assert_eq!(weights, expected);
        let left_out = LeftOut {
            finding: "blocked",
            count: 30,
        };
        assert_eq!(found.left_out, [left_out]);
    }
}
