//! x86_64 page tables: four or five levels, leaves of three sizes.
//!
//! Intel SDM volume 3, "4-level paging and 5-level paging": nine address bits per level from
//! bit 47 (or 56) down; bit 0 is the present bit, and bit 7 marks a leaf in the two middle
//! levels.

use crate::error::SynthError;
use crate::memory::{Frames, Memory, PAGE};
use crate::spec::Leaf;

const PRESENT: u64 = 1;
const LEAF: u64 = 1 << 7;
/// Present, writable, accessed, dirty: `_KERNPG_TABLE`.
const TABLE: u64 = 0x63;
/// Present, writable, accessed, dirty, global, as in `__PAGE_KERNEL`.
const KERNEL: u64 = 0x163;
/// Bit 63, no execute, is set in all leaves except those of the image, so that readers must
/// mask it.
const NO_EXEC: u64 = 1 << 63;

/// The kernel's page tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables {
    /// Page frame of the top-level table.
    pub(crate) top: u64,
    pub(crate) levels: u8,
    /// Memory encryption bit, or 0.
    pub(crate) sme_mask: u64,
}

impl Tables {
    /// Maps one leaf. `vaddr` and `paddr` are aligned to its size.
    pub(crate) fn map(
        &self,
        memory: &mut Memory,
        frames: &mut Frames,
        vaddr: u64,
        paddr: u64,
        leaf: Leaf,
        exec: bool,
    ) -> Result<(), SynthError> {
        let last = leaf.shift();
        let mut table = self.top;
        let mut shift = 12 + 9 * (u32::from(self.levels) - 1);
        while shift > last {
            let slot = table * PAGE as u64 + index(vaddr, shift) * 8;
            let entry = memory.read_u64(slot).unwrap_or(0);
            table = if entry & PRESENT != 0 {
                if entry & LEAF != 0 {
                    return Err(SynthError::layout(format!(
                        "address {vaddr:#x} is mapped twice"
                    )));
                }
                self.address(entry) / PAGE as u64
            } else {
                let new = frames.alloc(1, 1)?;
                memory.own(new);
                memory.write_u64(slot, (new * PAGE as u64) | TABLE | self.sme_mask)?;
                new
            };
            shift -= 9;
        }
        let mut entry = paddr | KERNEL | self.sme_mask;
        if leaf != Leaf::Small {
            entry |= LEAF;
        }
        if !exec {
            entry |= NO_EXEC;
        }
        memory.write_u64(table * PAGE as u64 + index(vaddr, shift) * 8, entry)
    }

    fn address(&self, entry: u64) -> u64 {
        entry & 0x000f_ffff_ffff_f000 & !self.sme_mask
    }
}

impl Leaf {
    pub(crate) fn shift(self) -> u32 {
        match self {
            Leaf::Small => 12,
            Leaf::Large => 21,
            Leaf::Giant => 30,
        }
    }

    /// Returns the number of page frames of one leaf.
    pub(crate) fn frames(self) -> u64 {
        1 << (self.shift() - 12)
    }
}

fn index(vaddr: u64, shift: u32) -> u64 {
    (vaddr >> shift) & 0x1ff
}
