//! Kernels with the hash MMU. The linear map and the struct pages are bolted into the hash table
//! and are in no page table; a list tells where the struct pages are
//! (arch/powerpc/mm/init_64.c). vmalloc and I/O addresses have page tables
//! (arch/powerpc/include/asm/book3s/64/hash-64k.h, hash-4k.h).

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use super::linear;
use super::radix::{ADDRESS, LEAF, NOT_ADDRESS};
use crate::arch::entries::{Entries, level_name};
use crate::arch::translator::{Leaf, Translator};
use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;

/// _PAGE_PRESENT of a page table entry. Directory entries have no such bit.
const PRESENT: u64 = 1 << 63;
/// The region of the linear map, and since 5.2 of all others (commit 0034d395f89d).
const LINEAR_REGION: u64 = 0xc;
/// Before 5.2, the region of vmalloc and I/O.
const VMALLOC_REGION: u64 = 0xd;
/// Maximum number of blocks of struct pages: those of 2^47 bytes of RAM in blocks of 64 KiB are
/// two million.
const MAX_BLOCKS: u64 = 1 << 22;
/// Minimum size of an entry of the list (struct vmemmap_backing).
const ENTRY_SIZE: u64 = 24;

/// A block of struct pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    virt: u64,
    physical: u64,
}

pub(super) struct Hash {
    root: u64,
    page_shift: u32,
    /// Index bits of the page tables, the lowest first.
    index_bits: [u32; 4],
    /// The first address behind the linear map in its region.
    linear_end: u64,
    /// Sorted by virtual address.
    blocks: Vec<Block>,
    block_shift: u32,
}

impl Hash {
    /// Reads the list of blocks of struct pages.
    pub(super) fn find(
        root: u64,
        page_shift: u32,
        info: &Vmcoreinfo,
        memory: &PhysicalMemory,
    ) -> Result<Self, KernelError> {
        let (blocks, block_shift) = read_blocks(info, memory)?;
        let is_64k = page_shift == 16;
        Ok(Self {
            root,
            page_shift,
            // Since 4.17 (commit c2b4d8b7417a).
            index_bits: if is_64k { [8, 10, 10, 8] } else { [9, 7, 9, 9] },
            // H_VMALLOC_START.
            linear_end: LINEAR_REGION << 60 | if is_64k { 1 << 51 } else { 1 << 44 },
            blocks,
            block_shift,
        })
    }

    fn block_of(&self, address: u64) -> Option<Leaf> {
        let index = self.blocks.partition_point(|block| block.virt <= address);
        let block = self.blocks.get(index.checked_sub(1)?)?;
        let offset = address - block.virt;
        let len = (1_u64 << self.block_shift).checked_sub(offset)?;
        (len > 0).then_some(Leaf {
            physical: bigiron_format::PhysAddr(block.physical.wrapping_add(offset)),
            len,
        })
    }
}

impl Translator for Hash {
    fn walk(&self, entries: &mut Entries, address: VirtAddr) -> Result<Option<Leaf>, SourceError> {
        let address = address.0;
        if let Some(leaf) = self.block_of(address) {
            return Ok(Some(leaf));
        }
        match address >> 60 {
            LINEAR_REGION if address < self.linear_end => {
                return Ok(Some(Leaf::linear(address, linear::physical(address))));
            }
            LINEAR_REGION | VMALLOC_REGION => {}
            _ => return Ok(None),
        }
        let mut shift = self.page_shift + self.index_bits.iter().sum::<u32>();
        if address << 4 >> 4 >> shift != 0 {
            return Ok(None);
        }
        let mut table = self.root;
        for (level, bits) in (0..4).zip(self.index_bits).rev() {
            shift -= bits;
            let index = address >> shift & ((1 << bits) - 1);
            let at = table.wrapping_add(index * 8);
            let entry = entries.read(level_name(level, 4), at, Endian::Big)?;
            if level == 0 || entry & LEAF != 0 {
                let leaf = Leaf::within(address, entry & ADDRESS, 1 << shift);
                return Ok((entry & PRESENT != 0).then_some(leaf));
            }
            if entry == 0 {
                return Ok(None);
            }
            table = entry & !NOT_ADDRESS;
        }
        Ok(None)
    }
}

/// Reads vmemmap_list; returns the blocks and log2 of their size.
fn read_blocks(
    info: &Vmcoreinfo,
    memory: &PhysicalMemory,
) -> Result<(Vec<Block>, u32), KernelError> {
    let layout = || {
        let offset = |name: &str| info.offset(name).map(|offset| offset as u64);
        Some((
            info.symbol("vmemmap_list")?.0,
            offset("vmemmap_backing.list")?,
            offset("vmemmap_backing.phys")?,
            offset("vmemmap_backing.virt_addr")?,
        ))
    };
    let Some((list, next, physical, virt)) = layout() else {
        return Ok((Vec::new(), 0));
    };
    let shift = block_shift(info, memory)?;
    let source = memory.source();
    let bytes = source.end_frame().0 << source.page_shift();
    let most = MAX_BLOCKS.min(bytes / ENTRY_SIZE);
    let mut blocks = Vec::new();
    let mut node = linear::read_u64(memory, list)?;
    while node != 0 {
        if blocks.len() as u64 >= most {
            return Err(KernelError::Implausible {
                what: "vmemmap_list".into(),
                found: "a list without end".into(),
                expected: "one entry for each block of struct pages",
            });
        }
        let field = |offset: u64| linear::read_u64(memory, node.wrapping_add(offset));
        blocks.push(Block {
            virt: field(virt)?,
            physical: field(physical)?,
        });
        node = field(next)?;
    }
    blocks.sort_by_key(|block| block.virt);
    Ok((blocks, shift))
}

/// Returns `mmu_psize_defs[mmu_vmemmap_psize].shift`.
fn block_shift(info: &Vmcoreinfo, memory: &PhysicalMemory) -> Result<u32, KernelError> {
    let needed = |key: &str| KernelError::missing(key, "find the struct pages");
    let symbol = |name: &str| {
        let found = info.symbol(name);
        found.ok_or_else(|| needed(&format!("SYMBOL({name})")))
    };
    let read_int = |address: u64| -> Result<u32, KernelError> {
        let mut bytes = [0; 4];
        let at = bigiron_format::PhysAddr(linear::physical(address));
        memory.read(at, &mut bytes)?;
        Ok(memory.source().endian().u32(&bytes, 0).unwrap_or(0))
    };
    let size = info
        .size("mmu_psize_def")
        .ok_or_else(|| needed("SIZE(mmu_psize_def)"))? as u64;
    let offset = info
        .offset("mmu_psize_def.shift")
        .ok_or_else(|| needed("OFFSET(mmu_psize_def.shift)"))? as u64;
    let index = u64::from(read_int(symbol("mmu_vmemmap_psize")?.0)?);
    let entry = index
        .checked_mul(size)
        .and_then(|at| at.checked_add(offset));
    let defs = symbol("mmu_psize_defs")?.0;
    let shift = read_int(defs.wrapping_add(entry.unwrap_or(0)))?;
    if (12..=34).contains(&shift) {
        return Ok(shift);
    }
    Err(KernelError::Implausible {
        what: "the page size of struct pages (mmu_psize_defs)".into(),
        found: format!("2^{shift}"),
        expected: "4 KiB to 16 GiB",
    })
}
