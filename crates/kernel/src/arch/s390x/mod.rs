//! s390x: big-endian, tables of two to five levels.
//!
//! z/Architecture Principles of Operation, "Dynamic Address Translation"; what VMCOREINFO has is
//! in arch/s390/kernel/vmcore_info.c.

mod lowcore;
#[cfg(feature = "stacks")]
mod registers;
mod tables;
#[cfg(feature = "stacks")]
mod unwind;

use std::ops::Range;

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use super::architecture::{Architecture, no_phys_base, noted_modules};
use super::translator::Translator;
use crate::error::KernelError;
use crate::memory::PhysicalMemory;
use tables::PageTables;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "s390x",
    // As QEMU writes it.
    aliases: &["S390X"],
    byte_orders: &[(Endian::Big, "s390x")],
    page_shifts: &[12],
    // Up to 64 bits are possible; kernels use at most 53 (three levels of region tables less).
    physical_bits: 53,
    // The kernel has an address space of its own, with RAM from 0 on through 6.9.
    kernel_start: 1,
    // EM_S390.
    elf_machine: 22,
    prstatus_size: 336,
    translator,
    section_bits,
    phys_base: no_phys_base,
    image_area: None,
    modules: noted_modules,
    byte_order: None,
    vmcoreinfo: Some(lowcore::find_vmcoreinfo),
    #[cfg(feature = "stacks")]
    stacks: Some(&unwind::S390x),
};

/// arch/s390/include/asm/sparsemem.h. Sections became smaller in 6.13, long after VMCOREINFO had
/// both numbers.
fn section_bits(_: &Vmcoreinfo) -> (i64, i64) {
    (28, 46)
}

fn translator(
    info: &Vmcoreinfo,
    memory: &PhysicalMemory,
) -> Result<Box<dyn Translator>, KernelError> {
    let symbol = info
        .symbol("swapper_pg_dir")
        .ok_or_else(|| KernelError::missing("SYMBOL(swapper_pg_dir)", "translate addresses"))?;
    // Since 6.10 the image has virtual addresses of its own (commit 378e32aa8197); before,
    // virtual and physical addresses are the same.
    let image = |key| info.hexadecimal(key);
    let root = match (image("KERNELOFFSET"), image("KERNELOFFPHYS")) {
        (Some(start), Some(physical)) => symbol.0.wrapping_sub(start).wrapping_add(physical),
        _ => symbol.0,
    };
    let same = match (image("SAMODE31"), image("EAMODE31")) {
        (Some(start), Some(end)) => start..end,
        _ => Range::default(),
    };
    Ok(Box::new(PageTables::find(root, same, memory)?))
}
