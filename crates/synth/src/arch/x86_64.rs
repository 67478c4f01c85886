//! x86-64: four or five levels of page tables, leaves of three sizes.
//!
//! Intel SDM volume 3, "4-level paging and 5-level paging": nine address bits per level from
//! bit 47 (or 56) down; bit 0 is the present bit, and bit 7 marks a leaf in the two middle
//! levels. Addresses: Documentation/arch/x86/x86_64/mm.rst, without randomization.

use crate::arch::contract::{Architecture, Areas, prstatus};
use crate::frames::Registers;
use crate::kernels::{Kernel, ZoneLayout};
use crate::layout::Layout;
use crate::order::ByteOrder;
use crate::paging::{Attributes, Codec, Entry, Level};
use crate::platform::Platform;
use crate::spec::{Leaf, Options, Spec};
use crate::vmcoreinfo::Info;

/// __START_KERNEL_map: start of the mapping of the image.
const START_KERNEL_MAP: u64 = 0xffff_ffff_8000_0000;
/// CONFIG_PHYSICAL_START: offset of the image in that mapping without KASLR.
const PHYSICAL_START: u64 = 0x100_0000;
/// KERNEL_IMAGE_SIZE with CONFIG_RANDOMIZE_BASE.
const KERNEL_IMAGE_SIZE: u64 = 1 << 30;
/// For 4 and 5 levels.
const VMALLOC_START: [u64; 2] = [0xffff_c900_0000_0000, 0xffa0_0000_0000_0000];
const VMEMMAP: [u64; 2] = [0xffff_ea00_0000_0000, 0xffd4_0000_0000_0000];
const PAGE_OFFSET: [u64; 2] = [0xffff_8880_0000_0000, 0xff11_0000_0000_0000];
/// Before 4.20 (d52888aa2753).
const PAGE_OFFSET_OLD: [u64; 2] = [0xffff_8800_0000_0000, 0xff10_0000_0000_0000];

#[derive(Debug)]
pub(super) struct X86_64;

impl Architecture for X86_64 {
    fn machine(&self) -> &'static str {
        "x86_64"
    }

    fn elf_machine(&self) -> u16 {
        62
    }

    fn default_options(&self, _platform: &Platform, _options: &mut Options) {}

    fn check_options(&self, spec: &Spec) -> Result<(), &'static str> {
        let options = &spec.options;
        if !matches!(options.levels, 4 | 5) {
            return Err("levels= wants 4 or 5");
        }
        let giant = |address: &u64| address.is_multiple_of(1 << 30) && *address >= 0xff << 56;
        let mut starts = options.page_offset.iter().chain(&options.vmemmap);
        if !starts.all(giant) {
            return Err(
                "page_offset= and vmemmap=: expected a kernel address at a multiple of 1 GiB",
            );
        }
        let sme = options.sme;
        if sme.is_some_and(|bit| !(40..52).contains(&bit) || !spec.kernel.since(5, 1)) {
            return Err("sme=: expected a bit from 40 to 51, and a kernel from 5.1 on");
        }
        Ok(())
    }

    fn check_layout(&self, spec: &Spec) -> Result<(), &'static str> {
        let kaslr = spec.options.kaslr;
        let end = PHYSICAL_START + (1 << 21);
        if !kaslr.is_multiple_of(1 << 21) || kaslr > KERNEL_IMAGE_SIZE - end {
            return Err("kaslr=: expected a multiple of 2 MiB below 1 GiB - 16 MiB");
        }
        Ok(())
    }

    fn leaf_shift(&self, _platform: &Platform, leaf: Leaf) -> Option<u32> {
        match leaf {
            Leaf::Large => Some(21),
            Leaf::Giant => Some(30),
            _ => None,
        }
    }

    /// arch/x86/include/asm/sparsemem.h.
    fn section_size_bits(&self, _spec: &Spec) -> u32 {
        27
    }

    /// pgtable_l5_enabled() ? 52 : 46.
    fn max_physmem_bits(&self, spec: &Spec) -> u32 {
        if spec.options.levels == 5 { 52 } else { 46 }
    }

    fn zone_ends(&self) -> [u64; 2] {
        [1 << 24, 1 << 32]
    }

    fn zones(&self, kernel: &Kernel) -> ZoneLayout {
        kernel.zones
    }

    /// CONFIG_NODES_SHIFT=10.
    fn max_nodes(&self) -> u64 {
        1024
    }

    fn areas(&self, spec: &Spec, _ram_base: u64) -> Areas {
        let options = &spec.options;
        let five = usize::from(options.levels == 5);
        let page_offset = if spec.kernel.since(4, 20) {
            PAGE_OFFSET[five]
        } else {
            PAGE_OFFSET_OLD[five]
        };
        let shift = PHYSICAL_START + options.kaslr;
        Areas {
            page_offset: options.page_offset.unwrap_or(page_offset),
            vmemmap: options.vmemmap.unwrap_or(VMEMMAP[five]),
            vmalloc: VMALLOC_START[five],
            image_virt: Some(START_KERNEL_MAP + shift),
            image_phys: options
                .phys_base
                .map(|base| shift.wrapping_add_signed(base)),
        }
    }

    fn codec(&self, spec: &Spec, _layout: &Layout) -> Box<dyn Codec> {
        Box::new(Entries {
            levels: spec.options.levels,
            sme_mask: sme_mask(spec),
        })
    }

    fn vmcoreinfo(&self, info: &mut Info, spec: &Spec, layout: &Layout) {
        let base = layout
            .image_phys
            .wrapping_sub(layout.image_virt - START_KERNEL_MAP);
        info.number("phys_base", base.cast_signed());
        info.symbol("init_top_pgt", layout.swapper_pg_dir());
        info.number("pgtable_l5_enabled", u8::from(spec.options.levels == 5));
        info.symbol("node_data", layout.node_data());
        info.length("node_data", self.max_nodes());
        info.line("KERNELOFFSET", format_args!("{:x}", spec.options.kaslr));
        info.line("NUMBER(KERNEL_IMAGE_SIZE)", KERNEL_IMAGE_SIZE);
        // 65f750e5457a.
        if spec.kernel.since(5, 1) {
            info.line("NUMBER(sme_mask)", sme_mask(spec).cast_signed());
        }
    }

    /// Words 16, 17 and 19 of `struct user_regs_struct` are rip, cs and rsp.
    fn prstatus(&self, registers: &Registers, order: ByteOrder) -> Vec<u8> {
        let words = [
            (4 * 8, registers.fp),
            (16 * 8, registers.pc),
            (17 * 8, 0x10),
            (19 * 8, registers.sp),
        ];
        prstatus(order, 336, &words)
    }

    fn qemu_has_vmcoreinfo(&self) -> bool {
        true
    }
}

/// Returns the memory encryption mask.
pub(crate) fn sme_mask(spec: &Spec) -> u64 {
    spec.options.sme.map_or(0, |bit| 1 << bit)
}

const PRESENT: u64 = 1;
const LEAF: u64 = 1 << 7;
/// Present, writable, accessed, dirty: `_KERNPG_TABLE`.
const TABLE: u64 = 0x63;
/// Present, writable, accessed, dirty, global, as in `__PAGE_KERNEL`.
const KERNEL: u64 = 0x163;
/// Bit 63, no execute, is set in all leaves except those of the image, so that readers must
/// mask it.
const NO_EXEC: u64 = 1 << 63;

#[derive(Debug)]
struct Entries {
    levels: u8,
    sme_mask: u64,
}

impl Codec for Entries {
    fn levels(&self) -> Vec<Level> {
        (0..u32::from(self.levels))
            .rev()
            .map(|height| Level {
                shift: 12 + 9 * height,
                bits: 9,
            })
            .collect()
    }

    fn table(&self, _height: usize, next: u64) -> u64 {
        next | TABLE | self.sme_mask
    }

    fn leaf(&self, height: usize, paddr: u64, attributes: Attributes) -> u64 {
        let large = if height > 0 { LEAF } else { 0 };
        let no_exec = if attributes.exec { 0 } else { NO_EXEC };
        paddr | KERNEL | self.sme_mask | large | no_exec
    }

    fn read(&self, height: usize, entry: u64) -> Entry {
        if entry & PRESENT == 0 {
            Entry::Empty
        } else if height > 0 && entry & LEAF != 0 {
            Entry::Leaf
        } else {
            Entry::Table(entry & 0x000f_ffff_ffff_f000 & !self.sme_mask)
        }
    }
}
