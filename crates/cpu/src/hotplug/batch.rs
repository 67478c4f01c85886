//! Single rebuild of the scheduler domains for many CPUs.
//!
//! CPUs in an isolated partition of cgroup version 2 belong to no domain. When such CPUs go
//! offline or come online, the list of domains stays the same, and
//! partition_sched_domains_locked (kernel/sched/topology.c) builds none. One partition for all
//! CPUs of an operation therefore costs one rebuild instead of one per CPU.

use std::fs;

use super::SysRoot;
use super::settings::{Settings, Undo};
use super::sys_root::{read, write};
use crate::list::CpuList;

/// Name of the partition, below the cgroup root.
const NAME: &str = "bigiron-hotplug";
const CONTROLLER: &str = "cpuset";

/// Puts `cpus` into a partition that is removed when the settings are restored. On error,
/// returns the reason, and no partition remains.
pub(super) fn begin(settings: &mut Settings, root: &SysRoot, cpus: &CpuList) -> Result<(), String> {
    let root = root.cgroups();
    let has = |name: &str| {
        let words = read(&root.join(name))
            .map_err(|error| format!("{}: {error}", root.join(name).display()));
        words.map(|words| words.split(' ').any(|word| word == CONTROLLER))
    };
    if !has("cgroup.controllers")? {
        return Err(format!("{} has no cpuset controller", root.display()));
    }
    let control = root.join("cgroup.subtree_control");
    let is_on = has("cgroup.subtree_control")?;
    let directory = root.join(NAME);
    if directory.exists() {
        return Err(format!("{} already exists", directory.display()));
    }
    let undo = Undo::Cgroup {
        directory: directory.clone(),
        controller: (!is_on).then(|| control.clone()),
    };
    settings.note(undo).map_err(|error| error.to_string())?;
    let partition = directory.join("cpuset.cpus.partition");
    let make = || -> std::io::Result<String> {
        if !is_on {
            write(&control, &format!("+{CONTROLLER}"))?;
        }
        fs::create_dir(&directory)?;
        write(&directory.join("cpuset.cpus"), &cpus.to_string())?;
        write(&partition, "isolated")?;
        read(&partition)
    };
    match make() {
        Ok(state) if state == "isolated" => Ok(()),
        Ok(state) => {
            // `state` contains the kernel's reason in parentheses.
            let _ = write(&partition, "member");
            Err(format!("the partition is {state:?}"))
        }
        Err(error) => {
            let _ = write(&partition, "member");
            Err(format!("{}: {error}", directory.display()))
        }
    }
}
