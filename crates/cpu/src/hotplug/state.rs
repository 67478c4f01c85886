//! The CPUs of the machine as they are.

use std::collections::BTreeMap;
use std::fs;

use serde::Serialize;

use super::{HotplugError, SysRoot};
use crate::list::CpuList;
use crate::system::System;

/// CPU states, as the kernel reports them.
#[derive(Clone, Debug, Serialize)]
pub struct Cpus {
    /// Present CPUs.
    pub present: CpuList,
    /// Online CPUs.
    pub online: CpuList,
    /// Present CPUs that are offline.
    pub offline: CpuList,
    /// CPUs excluded from load balancing by `isolcpus=`.
    pub isolated: CpuList,
    /// CPUs without a periodic tick, by `nohz_full=`.
    pub nohz_full: CpuList,
    /// Online CPUs that cannot go offline, having no `online` file: the boot CPU of most machines.
    pub fixed: CpuList,
    /// Simultaneous multithreading.
    pub smt: Smt,
    /// Position of each CPU; for an offline CPU the kernel shows its node at most.
    #[serde(skip)]
    pub spots: BTreeMap<u32, CpuPosition>,
}

/// SMT state, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Smt {
    /// Contents of smt/control: `on`, `off`, `forceoff`, `notsupported`, `notimplemented`, or a number of
    /// threads (powerpc since 6.6). `None` where the file is not there.
    pub control: Option<String>,
    /// Largest number of online threads of any core.
    pub threads: usize,
}

impl Smt {
    /// Returns true if the kernel has an SMT policy that can be set.
    pub fn is_kernels(&self) -> bool {
        !matches!(
            self.control.as_deref(),
            None | Some("notsupported" | "notimplemented")
        )
    }
}

/// Position of a CPU in the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuPosition {
    /// Its socket, as the kernel numbers them.
    pub socket: Option<i32>,
    /// Its memory node.
    pub node: Option<u32>,
    /// Online CPUs of its core, including itself.
    pub siblings: CpuList,
}

impl Cpus {
    /// Reads the CPU states from sysfs.
    ///
    /// # Errors
    /// There are no lists of CPUs, or they make no sense.
    pub fn read(place: &SysRoot) -> Result<Self, HotplugError> {
        let system = place.system();
        let (present, online) = (system.present()?, system.online()?);
        let mut nodes = Vec::new();
        let spots: BTreeMap<u32, CpuPosition> = present
            .iter()
            .map(|cpu| Ok((cpu, spot(&system, cpu, &online, &mut nodes)?)))
            .collect::<Result<_, HotplugError>>()?;
        let has_no_file = |cpu: &u32| !system.has_switch(*cpu);
        let threads = spots.values().map(|spot| spot.siblings.len()).max();
        Ok(Self {
            offline: present.without(&online),
            isolated: system.optional_list("isolated")?,
            nohz_full: system.optional_list("nohz_full")?,
            fixed: online.iter().filter(has_no_file).collect(),
            smt: Smt {
                control: system.smt_control(),
                threads: threads.unwrap_or(1),
            },
            present,
            online,
            spots,
        })
    }

    /// Returns the online CPUs of each core, ordered by the first.
    pub fn cores(&self) -> Vec<&CpuList> {
        let first = |(cpu, spot): (&u32, &CpuPosition)| spot.siblings.iter().next() == Some(*cpu);
        let cores = self.spots.iter().filter(|entry| first(*entry));
        cores.map(|(_, spot)| &spot.siblings).collect()
    }
}

fn spot(
    system: &System,
    cpu: u32,
    online: &CpuList,
    nodes: &mut Vec<u32>,
) -> Result<CpuPosition, HotplugError> {
    let node = node(system, cpu, nodes);
    if !online.contains(cpu) {
        return Ok(CpuPosition {
            node,
            ..CpuPosition::default()
        });
    }
    let mut siblings = system.optional_list(&format!("cpu{cpu}/topology/core_cpus_list"))?;
    if siblings.is_empty() {
        // Its name before Linux 5.3.
        siblings = system.optional_list(&format!("cpu{cpu}/topology/thread_siblings_list"))?;
    }
    let socket = system.value(&format!("cpu{cpu}/topology/physical_package_id"));
    Ok(CpuPosition {
        socket: socket.and_then(|id| id.parse().ok()),
        node,
        siblings: match siblings.contains(cpu) {
            true => siblings.and(online),
            false => [cpu].into_iter().collect(),
        },
    })
}

/// By the link to it, which stays while a CPU is offline. Of nodes that other CPUs have, `nodes`, it is
/// asked by name: to list all files of a CPU takes the kernel much longer.
fn node(system: &System, cpu: u32, nodes: &mut Vec<u32>) -> Option<u32> {
    let has = |node: &&u32| system.path(&format!("cpu{cpu}/node{node}")).exists();
    if let Some(node) = nodes.iter().rev().find(has) {
        return Some(*node);
    }
    let entries = fs::read_dir(system.path(&format!("cpu{cpu}"))).ok()?;
    let node = entries.flatten().find_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("node")?.parse().ok()
    })?;
    nodes.push(node);
    Some(node)
}
