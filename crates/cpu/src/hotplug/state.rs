//! The CPUs of the machine as they are.

use std::collections::BTreeMap;
use std::fs;

use serde::Serialize;

use super::{HotplugError, Place};
use crate::list::CpuList;
use crate::system::System;

/// What the kernel says of its CPUs.
#[derive(Clone, Debug, Serialize)]
pub struct Cpus {
    /// Those that are there.
    pub present: CpuList,
    /// Those that work.
    pub online: CpuList,
    /// Those that are there and do not work.
    pub offline: CpuList,
    /// Those that the scheduler balances no load to, by `isolcpus=`.
    pub isolated: CpuList,
    /// Those without a periodic tick, by `nohz_full=`.
    pub nohz_full: CpuList,
    /// Those on line that cannot go, for they have no file `online`: the boot CPU of most machines.
    pub fixed: CpuList,
    /// Simultaneous multithreading.
    pub smt: Smt,
    /// Where each of them lies; of a CPU off line the kernel shows its node at most.
    #[serde(skip)]
    pub spots: BTreeMap<u32, Spot>,
}

/// What the kernel says of hardware threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Smt {
    /// Of smt/control: `on`, `off`, `forceoff`, `notsupported`, `notimplemented`, or a number of
    /// threads (powerpc since 6.6). `None` where the file is not there.
    pub control: Option<String>,
    /// The most threads on line of any core.
    pub threads: usize,
}

impl Smt {
    /// Whether the kernel has a policy of its own that can be set.
    pub fn is_kernels(&self) -> bool {
        !matches!(
            self.control.as_deref(),
            None | Some("notsupported" | "notimplemented")
        )
    }
}

/// Where a CPU lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// Its socket, as the kernel numbers them.
    pub socket: Option<i32>,
    /// Its memory node.
    pub node: Option<u32>,
    /// The CPUs on line of its core, it among them.
    pub siblings: CpuList,
}

impl Cpus {
    /// Reads what the kernel shows.
    ///
    /// # Errors
    /// There are no lists of CPUs, or they make no sense.
    pub fn read(place: &Place) -> Result<Self, HotplugError> {
        let system = place.system();
        let (present, online) = (system.present()?, system.online()?);
        let mut nodes = Vec::new();
        let spots: BTreeMap<u32, Spot> = present
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

    /// The CPUs on line of each core, by the first.
    pub fn cores(&self) -> Vec<&CpuList> {
        let first = |(cpu, spot): (&u32, &Spot)| spot.siblings.iter().next() == Some(*cpu);
        let cores = self.spots.iter().filter(|entry| first(*entry));
        cores.map(|(_, spot)| &spot.siblings).collect()
    }
}

fn spot(
    system: &System,
    cpu: u32,
    online: &CpuList,
    nodes: &mut Vec<u32>,
) -> Result<Spot, HotplugError> {
    let node = node(system, cpu, nodes);
    if !online.contains(cpu) {
        return Ok(Spot {
            node,
            ..Spot::default()
        });
    }
    let mut siblings = system.optional_list(&format!("cpu{cpu}/topology/core_cpus_list"))?;
    if siblings.is_empty() {
        // Its name before Linux 5.3.
        siblings = system.optional_list(&format!("cpu{cpu}/topology/thread_siblings_list"))?;
    }
    let socket = system.value(&format!("cpu{cpu}/topology/physical_package_id"));
    Ok(Spot {
        socket: socket.and_then(|id| id.parse().ok()),
        node,
        siblings: match siblings.contains(cpu) {
            true => siblings.and(online),
            false => [cpu].into_iter().collect(),
        },
    })
}

/// By the link to it, which stays while a CPU is off line. Of nodes that other CPUs have, `nodes`, it is
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
