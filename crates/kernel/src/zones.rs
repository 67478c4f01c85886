//! The kernel's own count of free pages, to check the filter against.
//!
//! Sums NR_FREE_PAGES of all zones of all nodes (struct zone, vm_stat).

use bigiron_format::VirtAddr;

use crate::error::KernelError;
use crate::kernel::Kernel;

/// Maximum number of nodes (CONFIG_NODES_SHIFT is at most 10).
const MAX_NODES: usize = 1 << 12;
/// Maximum size of struct pglist_data, which is about 170 KiB with large NR_CPUS.
const MAX_NODE_SIZE: usize = 1 << 20;
/// Maximum number of zones (MAX_NR_ZONES is 5 or 6).
const MAX_ZONES: u32 = 16;

/// Returns the number of free pages according to the zones' counters; `Ok(None)` if VMCOREINFO
/// does not locate them.
pub fn free_pages(kernel: &Kernel) -> Result<Option<u64>, KernelError> {
    let Some(layout) = Layout::find(kernel) else {
        return Ok(None);
    };
    let mut total = 0_u64;
    for index in 0..layout.node_count {
        let slot = layout.nodes.0.wrapping_add(8 * index as u64);
        let node = match layout.one_node {
            true => layout.nodes,
            false => VirtAddr(kernel.read_u64("node_data", VirtAddr(slot))?),
        };
        if node.0 == 0 {
            continue;
        }
        let at = |offset: usize| VirtAddr(node.0.wrapping_add(offset as u64));
        let zones = kernel
            .read_u32("the zones of a node", at(layout.nr_zones))?
            .min(MAX_ZONES);
        for zone in 0..zones as usize {
            let counter = at(layout.zones + zone * layout.zone_size + layout.free_pages);
            // Counters are signed and may be temporarily negative.
            let count = kernel.read_u64("a zone's counters", counter)?.cast_signed();
            total = total.saturating_add(count.max(0).cast_unsigned());
        }
    }
    Ok(Some(total))
}

/// Returns the address and the size of each node's pglist_data; none if VMCOREINFO does not locate
/// them, or if the only one is in the kernel image.
pub fn nodes(kernel: &Kernel) -> Vec<(VirtAddr, u64)> {
    let info = kernel.info();
    let (Some(table), Some(size)) = (info.symbol("node_data"), info.size("pglist_data")) else {
        return Vec::new();
    };
    let count = info.length("node_data").unwrap_or(0).min(MAX_NODES);
    let slots = (0..count as u64).map(|index| VirtAddr(table.0.wrapping_add(8 * index)));
    let nodes = slots.filter_map(|slot| kernel.read_u64("node_data", slot).ok());
    let size = size.min(MAX_NODE_SIZE) as u64;
    nodes
        .filter(|node| *node != 0)
        .map(|node| (VirtAddr(node), size))
        .collect()
}

struct Layout {
    nodes: VirtAddr,
    /// True if `nodes` is the node itself (contig_page_data), not a table of pointers.
    one_node: bool,
    node_count: usize,
    nr_zones: usize,
    zones: usize,
    zone_size: usize,
    free_pages: usize,
}

impl Layout {
    fn find(kernel: &Kernel) -> Option<Self> {
        let info = kernel.info();
        let (nodes, one_node) = match info.symbol("node_data") {
            Some(nodes) => (nodes, false),
            None => (info.symbol("contig_page_data")?, true),
        };
        let length = if one_node {
            1
        } else {
            info.length("node_data")?
        };
        let counter = usize::try_from(info.number("NR_FREE_PAGES")?)
            .ok()
            .filter(|n| *n < 256)?;
        Some(Self {
            nodes,
            one_node,
            node_count: length.min(MAX_NODES),
            nr_zones: info.offset("pglist_data.nr_zones")?,
            zones: info.offset("pglist_data.node_zones")?,
            zone_size: info.size("zone").filter(|size| *size < 1 << 20)?,
            free_pages: info.offset("zone.vm_stat").filter(|o| *o < 1 << 20)? + 8 * counter,
        })
    }
}
