//! Interrupts whose CPUs all go offline.

use std::fs;

use serde::Serialize;

use super::SysRoot;
use crate::list::CpuList;

/// Interrupt whose online CPUs all go offline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interrupt {
    /// Interrupt number.
    pub number: u32,
    /// CPUs that may receive the interrupt.
    pub cpus: CpuList,
    /// True if the kernel manages the interrupt's affinity. A managed interrupt is shut down
    /// with the last of its CPUs, and its queue waits. `None` if unknown: without
    /// CONFIG_GENERIC_IRQ_DEBUGFS, or without root privileges.
    pub is_managed: Option<bool>,
    /// Names of the registered handlers (`actions`).
    pub actions: String,
}

/// Returns the interrupts that lose the last of their online CPUs when `going` go offline.
pub(super) fn losing(root: &SysRoot, online: &CpuList, going: &CpuList) -> Vec<Interrupt> {
    let Ok(entries) = fs::read_dir(root.path("proc/irq")) else {
        return Vec::new();
    };
    let numbers = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    let losing = numbers.filter_map(|number| {
        let cpus = root.says(&format!("proc/irq/{number}/smp_affinity_list"))?;
        let cpus: CpuList = cpus.parse().ok()?;
        let on = cpus.and(online);
        if on.is_empty() || !on.without(going).is_empty() {
            return None;
        }
        let actions = root.says(&format!("sys/kernel/irq/{number}/actions"));
        let actions = actions.unwrap_or_default();
        // An interrupt without handlers is not delivered.
        (!actions.is_empty()).then(|| Interrupt {
            number,
            cpus,
            is_managed: is_managed(root, number),
            actions,
        })
    });
    let mut losing: Vec<Interrupt> = losing.collect();
    losing.sort_by_key(|interrupt| interrupt.number);
    losing
}

/// Returns true if debugfs shows the flag of managed interrupts (kernel/irq/debugfs.c).
fn is_managed(root: &SysRoot, number: u32) -> Option<bool> {
    let text = root.says(&format!("sys/kernel/debug/irq/irqs/{number}"))?;
    Some(text.contains("IRQD_AFFINITY_MANAGED"))
}
