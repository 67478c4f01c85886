//! The hypervisor's direct map, and with it the order of page frames in the frame table.
//!
//! Where physical memory has large holes, the hypervisor leaves them out of both: it numbers page
//! frames by a compressed index (PDX, xen/common/pdx.c), in one of two forms. The direct map has
//! the page frames in the order of that index, so its page tables tell the order whatever the
//! form is, and without the variables that VMCOREINFO does not have.

use bigiron_format::{PhysAddr, VirtAddr};

use super::space::Space;
use crate::error::KernelError;
use crate::memory::PhysicalMemory;
use crate::steps::Steps;

/// Page frames that one index of a table of the second level maps. The order never changes
/// within so many (PDX_GROUP_SHIFT, xen/arch/x86/include/asm/mm.h).
const GROUP_FRAMES: u64 = 512;
/// Bytes of the direct map per entry of the tables of the highest level.
const SLOT: u64 = 512 << 30;
/// Maximum number of extents. A machine has a few ranges of memory.
const MAX_EXTENTS: usize = 1 << 14;
/// Translations beyond two for each group of page frames that the machine has: those of the
/// range's ends and of groups with pages that are not mapped.
const SPARE_STEPS: u64 = 1 << 16;

/// Consecutive page frames with consecutive indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The first page frame.
    pub(super) frame: u64,
    /// Its index.
    pub(super) index: u64,
    /// Number of page frames.
    pub(super) len: u64,
}

/// The page frames that the direct map has, in ascending order.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectMap {
    extents: Vec<Extent>,
}

impl DirectMap {
    /// Reads the direct map at `start`, of which the page tables have `slots` entries.
    pub(super) fn read(
        space: &Space,
        memory: &PhysicalMemory,
        start: VirtAddr,
        slots: u64,
    ) -> Result<Self, KernelError> {
        let mut extents: Vec<Extent> = Vec::new();
        let (mut at, end) = (0, slots * SLOT);
        let groups = memory.source().end_frame().0 / GROUP_FRAMES;
        let steps = Steps::new(groups.saturating_mul(2).saturating_add(SPARE_STEPS));
        while at < end {
            if !steps.take(1) || extents.len() > MAX_EXTENTS {
                return Err(KernelError::XenHost {
                    reason: format!(
                        "the hypervisor's direct map has more than {MAX_EXTENTS} ranges of \
                         memory, or its page tables are damaged"
                    ),
                });
            }
            let address = VirtAddr(start.0.wrapping_add(at));
            let (found, covered) = space.leaf_or_gap(memory, address)?;
            // Leaves are aligned to their size, and smaller ones to groups.
            let len = covered.max(GROUP_FRAMES << 12);
            let found = match found {
                None if covered < GROUP_FRAMES << 12 => {
                    first_in_group(space, memory, address, &steps)?
                }
                found => found,
            };
            if let Some(physical) = found {
                push(&mut extents, physical, at >> 12, len >> 12);
            }
            at += len;
        }
        extents.sort_unstable_by_key(|extent| extent.frame);
        // No frame is mapped twice, but by damaged page tables.
        let mut covered = 0_u64;
        extents.retain_mut(|extent| {
            let skipped = covered.saturating_sub(extent.frame);
            if skipped >= extent.len {
                return false;
            }
            extent.frame += skipped;
            extent.index += skipped;
            extent.len -= skipped;
            covered = extent.frame + extent.len;
            true
        });
        Ok(Self { extents })
    }

    /// Returns the page frames at or after `frame` that the direct map has: the first one, its
    /// index, and how many follow in the same order.
    pub(super) fn run_at(&self, frame: u64) -> Option<Extent> {
        let behind = |extent: &Extent| extent.frame + extent.len <= frame;
        let extent = self.extents.get(self.extents.partition_point(behind))?;
        let skipped = frame.saturating_sub(extent.frame);
        Some(Extent {
            frame: extent.frame + skipped,
            index: extent.index + skipped,
            len: extent.len - skipped,
        })
    }

    /// Returns all page frames, in ascending order.
    pub(super) fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

/// Returns where the group at `address` lies, by the first of its pages that is mapped. The
/// hypervisor unmaps single pages, such as guard pages.
fn first_in_group(
    space: &Space,
    memory: &PhysicalMemory,
    address: VirtAddr,
    steps: &Steps,
) -> Result<Option<PhysAddr>, KernelError> {
    for page in (1..GROUP_FRAMES).take_while(|_| steps.take(1)) {
        let at = VirtAddr(address.0.wrapping_add(page << 12));
        if let Some(leaf) = space.translate(memory, at)? {
            return Ok(leaf.physical.0.checked_sub(page << 12).map(PhysAddr));
        }
    }
    Ok(None)
}

/// Adds `len` frames from `physical` on, whose first index is `index`.
fn push(extents: &mut Vec<Extent>, physical: PhysAddr, index: u64, len: u64) {
    let frame = physical.0 >> 12;
    match extents.last_mut() {
        Some(last) if last.index + last.len == index && last.frame + last.len == frame => {
            last.len += len;
        }
        _ => extents.push(Extent { frame, index, len }),
    }
}
