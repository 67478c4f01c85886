//! Side effects of taking CPUs offline.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::SysRoot;
use super::irqs::{self, Interrupt};
use super::state::Cpus;
use super::tasks::{self, BoundTasks};
use crate::list::CpuList;

/// Side effects of taking CPUs offline, other than having fewer CPUs. None of them prevents it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OfflineEffects {
    /// Isolated CPUs, which were reserved for a purpose.
    pub isolated: CpuList,
    /// CPUs without a periodic tick (`nohz_full`).
    pub nohz_full: CpuList,
    /// Memory nodes left without an online CPU.
    pub nodes: Vec<u32>,
    /// Interrupts that lose their last CPU.
    pub interrupts: Vec<Interrupt>,
    /// Processes that lose their last CPU.
    pub tasks: BoundTasks,
}

impl OfflineEffects {
    /// Returns the effects of taking the online CPUs in `going` offline.
    pub fn of(root: &SysRoot, cpus: &Cpus, going: &CpuList) -> Self {
        let going = &going.and(&cpus.online);
        let nodes = |cpus_there: &CpuList| -> BTreeSet<u32> {
            let positions = cpus_there.iter().filter_map(|cpu| cpus.positions.get(&cpu));
            positions.filter_map(|position| position.node).collect()
        };
        let left = nodes(&cpus.online.without(going));
        Self {
            isolated: cpus.isolated.and(going),
            nohz_full: cpus.nohz_full.and(going),
            nodes: nodes(going).difference(&left).copied().collect(),
            interrupts: irqs::losing(root, &cpus.online, going),
            tasks: tasks::bound(root, &cpus.online, going),
        }
    }
}

/// Writes one line per effect.
impl fmt::Display for OfflineEffects {
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
            writeln!(f, "memory node {node} is left without an online CPU")?;
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
                "interrupts that move to other CPUs permanently: {}",
                some(&moved)
            )?;
        }
        if !unknown.is_empty() {
            let unknown = some(&unknown);
            writeln!(
                f,
                "interrupts that lose the last of their CPUs: {unknown}; they move to others, or are shut down \
                 if managed, which this kernel does not report (no /sys/kernel/debug/irq)"
            )?;
        }
        if self.tasks.count > 0 {
            let and_more = match self.tasks.count > self.tasks.some.len() {
                true => ", …",
                false => "",
            };
            writeln!(
                f,
                "processes bound only to these CPUs, which lose that binding when they next run: {}: {}{and_more}",
                self.tasks.count,
                self.tasks.some.join(", ")
            )?;
        }
        Ok(())
    }
}

/// Joins the first five elements and counts the rest.
fn some(list: &[String]) -> String {
    let shown: Vec<&str> = list.iter().take(5).map(String::as_str).collect();
    match list.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
