//! One rebuild of the scheduler's domains for many CPUs.
//!
//! CPUs in an isolated partition of cgroup version 2 are in no domain. When such CPUs come or go,
//! the list of domains stays as it is, and partition_sched_domains_locked (kernel/sched/topology.c)
//! builds none. So one partition for all CPUs that go costs one rebuild in place of one for each.

use std::fs;

use super::SysRoot;
use super::settings::{Settings, Undo};
use super::sys_root::{read, write};
use crate::list::CpuList;

/// The partition, below the root of the cgroups.
const NAME: &str = "bigiron-hotplug";
const CONTROLLER: &str = "cpuset";

/// Puts `cpus` into a partition that is removed when settings are put back. Or says why not: then
/// there is none.
pub(super) fn begin(
    settings: &mut Settings,
    place: &SysRoot,
    cpus: &CpuList,
) -> Result<(), String> {
    let root = place.cgroups();
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
        return Err(format!("{} is there already", directory.display()));
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
            // The kernel's reason is in parentheses.
            let _ = write(&partition, "member");
            Err(format!("the partition is {state:?}"))
        }
        Err(error) => {
            let _ = write(&partition, "member");
            Err(format!("{}: {error}", directory.display()))
        }
    }
}
