//! The subjects of a tuning: the rules of a file, and the running kernel.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use bigiron_cpu::build;
use bigiron_cpu::source::{self, DomainSource, Machine, Running};
use bigiron_cpu::topology::Topology;
use bigiron_cpu::tune::{Rules, Tuner};
use bigiron_cpu::{CpuList, DomainTree};

use super::super::temporary::JournaledSettings;
use crate::tell::tell;

/// Topology of the running machine.
const SYSFS: &str = "/sys/devices/system";

/// Reads rules from a file.
pub fn read_rules(file: &Path) -> anyhow::Result<Rules> {
    let name = file.display();
    let text = fs::read(file).with_context(|| name.to_string())?;
    let rules: Rules = serde_json::from_slice(&text).with_context(|| {
        format!("{name}: expected rules such as {{\"rules\": [{{\"domain\": \"MC\", \"imbalance_pct\": 125}}]}}")
    })?;
    match rules.fault() {
        Some(fault) => bail!("{name}: {fault}"),
        None => Ok(rules),
    }
}

/// Returns the running kernel, whose tunables must be readable.
pub fn running_kernel() -> anyhow::Result<Running> {
    let running = source::running()?;
    for warning in running.warnings() {
        tell!("bigiron: warning: {warning}");
    }
    let tree = running.read()?;
    let mut domains = tree.cpus.values().flatten();
    if domains.clone().next().is_some() && domains.all(|domain| domain.tunables.is_none()) {
        bail!("the tunables of this kernel's domains cannot be read; see the warnings");
    }
    Ok(running)
}

/// Returns the domains that the kernel would build without isolated CPUs, if the topology is
/// readable.
pub fn default_domains() -> Option<DomainTree> {
    let directory = Path::new(SYSFS);
    let machine = Machine {
        description: SYSFS.into(),
        topology: Topology::from_directory(directory).ok()?,
        online: bigiron_cpu::System::running().online().ok()?,
        isolated: CpuList::default(),
        rules: build::Rules::LINUX_6_12.on(build::Architecture::HOST),
    };
    machine.read().ok()
}

/// Returns a tuner of the running kernel; `lock_timeout` is the time to wait for another command.
pub fn tuner(lock_timeout: Duration, command: &'static str) -> Tuner {
    Tuner::running(JournaledSettings {
        lock_timeout,
        command,
    })
}
