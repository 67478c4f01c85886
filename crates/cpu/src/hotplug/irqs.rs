//! Interrupts that only CPUs that go take.

use std::fs;

use serde::Serialize;

use super::SysRoot;
use crate::list::CpuList;

/// An interrupt all of whose CPUs go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// The CPUs that it may go to.
    pub cpus: CpuList,
    /// Whether its driver has the kernel manage it: then it is shut down with the last of its CPUs,
    /// and its queue waits. `None` where the kernel does not tell: without
    /// CONFIG_GENERIC_IRQ_DEBUGFS, or for whoever is not root.
    pub is_managed: Option<bool>,
    /// What has asked for it.
    pub actions: String,
}

/// Interrupts that lose the last of their CPUs online when `going` go.
pub(super) fn losing(place: &SysRoot, online: &CpuList, going: &CpuList) -> Vec<Interrupt> {
    let Ok(entries) = fs::read_dir(place.path("proc/irq")) else {
        return Vec::new();
    };
    let numbers = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    let losing = numbers.filter_map(|number| {
        let cpus = place.says(&format!("proc/irq/{number}/smp_affinity_list"))?;
        let cpus: CpuList = cpus.parse().ok()?;
        let on = cpus.and(online);
        if on.is_empty() || !on.without(going).is_empty() {
            return None;
        }
        let actions = place.says(&format!("sys/kernel/irq/{number}/actions"));
        let actions = actions.unwrap_or_default();
        // One that nobody asked for goes nowhere.
        (!actions.is_empty()).then(|| Interrupt {
            number,
            cpus,
            is_managed: is_managed(place, number),
            actions,
        })
    });
    let mut losing: Vec<Interrupt> = losing.collect();
    losing.sort_by_key(|interrupt| interrupt.number);
    losing
}

/// By the flags that debugfs shows (kernel/irq/debugfs.c).
fn is_managed(place: &SysRoot, number: u32) -> Option<bool> {
    let text = place.says(&format!("sys/kernel/debug/irq/irqs/{number}"))?;
    Some(text.contains("IRQD_AFFINITY_MANAGED"))
}
