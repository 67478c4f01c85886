//! What is to be known before CPUs go.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::SysRoot;
use super::irqs::{self, Interrupt};
use super::state::Cpus;
use super::tasks::{self, BoundTasks};
use crate::list::CpuList;

/// What would change with CPUs that go, beside their number. None of it stops them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OfflineBlockers {
    /// Those that are isolated: somebody meant them for one thing.
    pub isolated: CpuList,
    /// Those without a tick.
    pub nohz_full: CpuList,
    /// Memory nodes that are left without a CPU online.
    pub nodes: Vec<u32>,
    /// Interrupts that lose their last CPU.
    pub interrupts: Vec<Interrupt>,
    /// Processes that lose their last CPU.
    pub tasks: BoundTasks,
}

impl OfflineBlockers {
    /// Of CPUs online that go.
    pub fn of(place: &SysRoot, cpus: &Cpus, going: &CpuList) -> Self {
        let going = &going.and(&cpus.online);
        let nodes = |cpus_there: &CpuList| -> BTreeSet<u32> {
            let spots = cpus_there.iter().filter_map(|cpu| cpus.spots.get(&cpu));
            spots.filter_map(|spot| spot.node).collect()
        };
        let left = nodes(&cpus.online.without(going));
        Self {
            isolated: cpus.isolated.and(going),
            nohz_full: cpus.nohz_full.and(going),
            nodes: nodes(going).difference(&left).copied().collect(),
            interrupts: irqs::losing(place, &cpus.online, going),
            tasks: tasks::bound(place, &cpus.online, going),
        }
    }
}

/// A line for each.
impl fmt::Display for OfflineBlockers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.isolated.is_empty() {
            writeln!(
                f,
                "CPUs {} are isolated from the scheduler's balancing",
                self.isolated
            )?;
        }
        if !self.nohz_full.is_empty() {
            writeln!(f, "CPUs {} run without a tick (nohz_full)", self.nohz_full)?;
        }
        for node in &self.nodes {
            writeln!(f, "memory node {node} is left without a CPU online")?;
        }
        let managed = |state| {
            let some = self
                .interrupts
                .iter()
                .filter(move |one| one.is_managed == state);
            some.map(|one| format!("{} ({})", one.number, one.actions))
                .collect::<Vec<_>>()
        };
        let (shut, moved, unknown) = (managed(Some(true)), managed(Some(false)), managed(None));
        if !shut.is_empty() {
            let shut = some(&shut);
            writeln!(
                f,
                "managed interrupts that are shut down with the last of their CPUs: {shut}"
            )?;
        }
        if !moved.is_empty() {
            writeln!(
                f,
                "interrupts that go to other CPUs for good: {}",
                some(&moved)
            )?;
        }
        if !unknown.is_empty() {
            let unknown = some(&unknown);
            writeln!(
                f,
                "interrupts that lose the last of their CPUs: {unknown}; they move to others, or are shut down \
                 if managed, which this kernel does not tell (no /sys/kernel/debug/irq)"
            )?;
        }
        if self.tasks.count > 0 {
            let and_more = match self.tasks.count > self.tasks.some.len() {
                true => ", …",
                false => "",
            };
            writeln!(
                f,
                "processes that are bound to nothing but these CPUs, and lose that binding when they next run: {}: {}{and_more}",
                self.tasks.count,
                self.tasks.some.join(", ")
            )?;
        }
        Ok(())
    }
}

/// The first few.
fn some(list: &[String]) -> String {
    let shown: Vec<&str> = list.iter().take(5).map(String::as_str).collect();
    match list.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
