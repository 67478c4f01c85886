//! arm64: pages of 4, 16 and 64 KiB, kernel addresses of 36 to 52 bits.
//!
//! What VMCOREINFO has is in arch/arm64/kernel/vmcore_info.c.

#[cfg(feature = "stacks")]
mod registers;
mod tables;
#[cfg(feature = "stacks")]
mod unwind;

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use super::architecture::{Architecture, noted_modules};
use super::translator::Translator;
use crate::error::KernelError;
use crate::memory::PhysicalMemory;
use tables::{PageTables, Shape};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "aarch64",
    aliases: &["arm64"],
    byte_orders: &[(Endian::Little, "aarch64"), (Endian::Big, "aarch64_be")],
    page_shifts: &[12, 14, 16],
    physical_bits: 52,
    kernel_start: 1 << 63,
    // EM_AARCH64.
    elf_machine: 183,
    prstatus_size: 392,
    translator,
    section_bits,
    phys_base,
    image_area: None,
    modules: noted_modules,
    byte_order: None,
    vmcoreinfo: None,
    #[cfg(feature = "stacks")]
    stacks: Some(&unwind::Arm64),
};

/// arch/arm64/include/asm/sparsemem.h. VMCOREINFO has both since before sections became smaller
/// in 5.12 (commit f0b13ee23241).
fn section_bits(info: &Vmcoreinfo) -> (i64, i64) {
    let has_64k_pages = info.page_shift() == Some(16);
    (30, if has_64k_pages { 52 } else { 48 })
}

/// makedumpfile and crash exchange PHYS_OFFSET in this field.
fn phys_base(info: &Vmcoreinfo) -> u64 {
    info.number("PHYS_OFFSET").unwrap_or(0).cast_unsigned()
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
    // Kernels before 4.12 (commit 20a166243328) have no such key; for them the /proc/vmcore
    // segment that maps the kernel image tells.
    let root = match info.number("kimage_voffset") {
        Some(offset) => symbol.0.wrapping_sub(offset.cast_unsigned()),
        None => memory
            .source()
            .segment_address(symbol)
            .ok_or_else(|| needed("NUMBER(kimage_voffset)"))?,
    };
    let shape = Shape {
        page_shift,
        bits: virtual_bits(info, page_shift, symbol.0)?,
    };
    let endian = memory.source().endian();
    Ok(Box::new(PageTables::new(root, shape, endian)))
}

/// The number of address bits that the page tables translate.
///
/// Tables of 64 KiB pages are laid out for VA_BITS, whatever the CPU can do. With other page
/// sizes a kernel built for 52 bits folds a level where the CPU has 48 (since 6.9, commit
/// 0dd4f60a2c76), and TCR_EL1.T1SZ tells what it did.
fn virtual_bits(info: &Vmcoreinfo, page_shift: u32, image: u64) -> Result<u32, KernelError> {
    let in_use = ["TCR_EL1_T1SZ", "tcr_el1_t1sz"]
        .iter()
        .find_map(|name| info.number(name))
        .filter(|_| page_shift != 16)
        .and_then(|unused| 64_i64.checked_sub(unused));
    let bits = in_use
        .or_else(|| info.number("VA_BITS"))
        // Before 4.12 the kernel image is in the upper half of the kernel's addresses.
        .unwrap_or_else(|| 64 - i64::from(image.leading_ones()));
    u32::try_from(bits)
        .ok()
        .filter(|bits| (page_shift + 1..=52).contains(bits))
        .ok_or_else(|| KernelError::Implausible {
            what: "the number of virtual address bits (VA_BITS, TCR_EL1_T1SZ)".into(),
            found: bits.to_string(),
            expected: "36 to 52",
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    fn bits(text: &str, page_shift: u32, image: u64) -> Option<u32> {
        let info = Vmcoreinfo::parse(text.as_bytes(), 0).unwrap();
        virtual_bits(&info, page_shift, image).ok()
    }

    #[test]
    fn address_bits_are_those_in_use_except_for_64k_pages() {
        let folded = "NUMBER(VA_BITS)=52\nNUMBER(TCR_EL1_T1SZ)=0x10\n";
        assert_eq!(bits(folded, 12, 0), Some(48));
        assert_eq!(bits(folded, 16, 0), Some(52));
        assert_eq!(bits("NUMBER(VA_BITS)=39\n", 12, 0), Some(39));
        assert_eq!(bits("", 12, 0xffff_0000_0808_0000), Some(48));
        assert_eq!(bits("", 12, 0xffff_ff80_0808_0000), Some(39));
        assert_eq!(bits("NUMBER(VA_BITS)=64\n", 12, 0), None);
        assert_eq!(
            bits("NUMBER(TCR_EL1_T1SZ)=-9223372036854775808\n", 12, 0),
            None
        );
    }
}
