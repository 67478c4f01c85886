//! Detects rebuilds of domains at low cost.

use std::collections::{BTreeMap, BTreeSet};

use crate::domains::SchedDomain;
use crate::list::CpuList;
use crate::source::Chains;
use crate::source::{DomainSource, Mark, SourceError};

/// Observed state of a CPU's domains.
#[derive(Debug, PartialEq, Eq)]
enum Sign {
    Mark(Mark),
    /// Used if the source has no marks.
    Chain(Vec<SchedDomain>),
}

/// Observed states of a few CPUs. The kernel rebuilds the domains of all CPUs that can exchange
/// tasks together (partition_sched_domains, kernel/sched/topology.c), so one of these CPUs is
/// representative of the others.
#[derive(Debug, Default)]
pub struct Watch {
    seen: BTreeMap<u32, Sign>,
    online: CpuList,
}

impl Watch {
    /// Returns true if any domain was rebuilt since the previous call; the first call returns
    /// true.
    ///
    /// # Errors
    /// The domains cannot be read.
    pub fn look<C: Chains + DomainSource>(&mut self, chains: &C) -> Result<bool, SourceError> {
        let online = Chains::online(chains)?;
        let mut same = online == self.online && !online.is_empty();
        for (cpu, sign) in &self.seen {
            same = same && look_at(chains, *cpu)? == *sign;
        }
        if same {
            return Ok(false);
        }
        self.seen.clear();
        // Before the caller reads the chains: a rebuild in the meantime is detected by the next
        // call.
        for cpu in few(chains, &online)? {
            self.seen.insert(cpu, look_at(chains, cpu)?);
        }
        self.online = online;
        Ok(true)
    }
}

fn look_at<C: Chains + DomainSource>(chains: &C, cpu: u32) -> Result<Sign, SourceError> {
    if let Some(mark) = chains.mark(cpu)? {
        return Ok(Sign::Mark(mark));
    }
    let mut chain = Chains::chain(chains, cpu)?;
    for domain in &mut chain {
        // These change by themselves.
        domain.max_newidle_lb_cost = None;
        domain.counters.clear();
    }
    Ok(Sign::Chain(chain))
}

/// Returns the CPUs to observe: the first and the last CPU of each largest domain, one CPU
/// without domains, and every CPU whose domains have no span.
fn few(chains: &impl Chains, online: &CpuList) -> Result<Vec<u32>, SourceError> {
    let mut few = Vec::new();
    let mut covered = BTreeSet::new();
    let mut alone = false;
    for cpu in online.iter() {
        if covered.contains(&cpu) {
            continue;
        }
        let chain = chains.chain(cpu)?;
        match chain.last().map(|domain| domain.span.as_ref()) {
            None if alone => {}
            None => {
                alone = true;
                few.push(cpu);
            }
            Some(None) => few.push(cpu),
            Some(Some(span)) => {
                few.push(cpu);
                few.extend(span.iter().last());
                covered.extend(span.iter());
            }
        }
    }
    Ok(few)
}
