//! Current state of the CPUs.

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
    /// Position of each CPU; for an offline CPU the kernel shows at most its node.
    #[serde(skip)]
    pub positions: BTreeMap<u32, CpuPosition>,
}

/// SMT state, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Smt {
    /// Contents of smt/control: `on`, `off`, `forceoff`, `notsupported`, `notimplemented`, or a
    /// number of threads (powerpc since 6.6). `None` if the file does not exist.
    pub control: Option<String>,
    /// Largest number of online threads of any core.
    pub threads: usize,
    /// Threads of each core on Power, online or not. They have consecutive CPU numbers there,
    /// from a multiple of this number on (cpu_first_thread_sibling,
    /// arch/powerpc/include/asm/cputhreads.h). `None` elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_core: Option<usize>,
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
    /// Number of the socket, as assigned by the kernel.
    pub socket: Option<i32>,
    /// Number of the memory node.
    pub node: Option<u32>,
    /// Online CPUs of the core, including this one.
    pub siblings: CpuList,
}

impl Cpus {
    /// Reads the CPU states from sysfs.
    ///
    /// # Errors
    /// The lists of CPUs cannot be read or are invalid.
    pub fn read(root: &SysRoot) -> Result<Self, HotplugError> {
        let system = root.system();
        let (present, online) = (system.present()?, system.online()?);
        let mut nodes = Vec::new();
        let positions: BTreeMap<u32, CpuPosition> = present
            .iter()
            .map(|cpu| Ok((cpu, position(&system, cpu, &online, &mut nodes)?)))
            .collect::<Result<_, HotplugError>>()?;
        let has_no_file = |cpu: &u32| !system.has_switch(*cpu);
        let threads = positions
            .values()
            .map(|position| position.siblings.len())
            .max();
        Ok(Self {
            offline: present.without(&online),
            isolated: system.optional_list("isolated")?,
            nohz_full: system.optional_list("nohz_full")?,
            fixed: online.iter().filter(has_no_file).collect(),
            smt: Smt {
                control: system.smt_control(),
                threads: threads.unwrap_or(1),
                per_core: threads_in_device_tree(root),
            },
            present,
            online,
            positions,
        })
    }

    /// Returns the online CPUs of each core, ordered by their first CPU.
    pub fn cores(&self) -> Vec<&CpuList> {
        let first =
            |(cpu, position): (&u32, &CpuPosition)| position.siblings.iter().next() == Some(*cpu);
        let cores = self.positions.iter().filter(|entry| first(*entry));
        cores.map(|(_, position)| &position.siblings).collect()
    }
}

/// Returns the largest number of threads of a core in Power's device tree: the cells of
/// `ibm,ppc-interrupt-server#s`, of which each is a thread (smp_setup_cpu_maps,
/// arch/powerpc/kernel/setup-common.c).
fn threads_in_device_tree(root: &SysRoot) -> Option<usize> {
    /// More than any core has; a larger file is something else.
    const MOST: u64 = 64;
    let cores = fs::read_dir(root.path("proc/device-tree/cpus")).ok()?;
    let threads = cores.flatten().filter_map(|core| {
        let cells = core.path().join("ibm,ppc-interrupt-server#s");
        Some(fs::metadata(cells).ok()?.len() / 4)
    });
    let most = threads
        .max()
        .filter(|threads| (1..=MOST).contains(threads))?;
    Some(most as usize)
}

fn position(
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
        // Name of the file before Linux 5.3.
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

/// Returns the node of a CPU by its `nodeN` link, which remains while the CPU is offline. The
/// known nodes of other CPUs, `nodes`, are tried by name first: listing all files of a CPU
/// takes the kernel much longer.
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
