//! ppc64 and ppc64le (Book3S): radix page tables, or the hash table's bolted mappings.
//!
//! What VMCOREINFO has is in arch/powerpc/kexec/vmcore_info.c.

mod hash;
mod linear;
mod radix;
#[cfg(feature = "stacks")]
mod registers;
#[cfg(feature = "stacks")]
mod unwind;

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use super::architecture::{Architecture, no_phys_base, noted_modules};
use super::translator::Translator;
use crate::error::KernelError;
use crate::memory::PhysicalMemory;
use hash::Hash;
use linear::{byte_order, read_u64};
use radix::Radix;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "ppc64le",
    aliases: &[],
    byte_orders: &[(Endian::Little, "ppc64le"), (Endian::Big, "ppc64")],
    page_shifts: &[16, 12],
    physical_bits: 53,
    kernel_start: 1 << 63,
    // EM_PPC64.
    elf_machine: 21,
    prstatus_size: 504,
    translator,
    section_bits,
    phys_base: no_phys_base,
    image_area: None,
    modules: noted_modules,
    byte_order: Some(byte_order),
    vmcoreinfo: None,
    #[cfg(feature = "stacks")]
    stacks: Some(&unwind::Ppc64),
};

/// MMU_FTR_TYPE_RADIX (arch/powerpc/include/asm/mmu.h).
const FEATURE_RADIX: u64 = 0x40;

/// arch/powerpc/include/asm/sparsemem.h.
fn section_bits(_: &Vmcoreinfo) -> (i64, i64) {
    (24, 51)
}

fn translator(
    info: &Vmcoreinfo,
    memory: &PhysicalMemory,
) -> Result<Box<dyn Translator>, KernelError> {
    let needed = |key: &str| KernelError::missing(key, "translate addresses");
    let symbol = info
        .symbol("swapper_pg_dir")
        .ok_or_else(|| needed("SYMBOL(swapper_pg_dir)"))?;
    let page_shift = info.page_shift().ok_or_else(|| needed("PAGESIZE"))?;
    let root = linear::physical(symbol.0);
    Ok(if uses_radix(info, memory)? {
        Box::new(Radix::new(root, page_shift))
    } else {
        Box::new(Hash::find(root, page_shift, info, memory)?)
    })
}

/// RADIX_MMU is there since 6.7 (commit 36e826b568e4); before, the CPU's features tell.
fn uses_radix(info: &Vmcoreinfo, memory: &PhysicalMemory) -> Result<bool, KernelError> {
    if let Some(radix) = info.number("RADIX_MMU") {
        return Ok(radix != 0);
    }
    let features = || {
        let pointer = info.symbol("cur_cpu_spec")?;
        Some((pointer, info.offset("cpu_spec.mmu_features")? as u64))
    };
    let Some((pointer, offset)) = features() else {
        return Ok(false);
    };
    let spec = read_u64(memory, pointer.0)?;
    // An unsigned int, in either half of the eight bytes.
    let features = read_u64(memory, spec.wrapping_add(offset))?;
    let features = match memory.source().endian() {
        Endian::Little => features,
        Endian::Big => features >> 32,
    };
    Ok(features & FEATURE_RADIX != 0)
}
