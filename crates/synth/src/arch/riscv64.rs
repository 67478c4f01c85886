//! riscv64: Sv39, Sv48 and Sv57, with Svnapot.
//!
//! RISC-V privileged specification, "Sv39: Page-Based 39-bit Virtual-Memory System" and on;
//! addresses: arch/riscv/include/asm/pgtable.h, arch/riscv/mm/init.c and
//! Documentation/arch/riscv/vm-layout.rst.

use crate::arch::contract::{Architecture, Areas, prstatus};
use crate::frames::{Frames, Registers, frame_records};
use crate::kernels::{Kernel, ZoneLayout};
use crate::layout::Layout;
use crate::order::ByteOrder;
use crate::paging::{Attributes, Codec, Entry, Level};
use crate::platform::Platform;
use crate::spec::{Leaf, Options, Spec};
use crate::vmcoreinfo::Info;

/// KERNEL_LINK_ADDR: address of the image without KASLR.
const KERNEL_LINK_ADDR: u64 = 0xffff_ffff_8000_0000;

#[derive(Debug)]
pub(super) struct Riscv64;

/// PAGE_OFFSET, VMALLOC_START and VMEMMAP_START, below one another.
fn starts(bits: u32) -> (u64, u64, u64) {
    let page_offset = match bits {
        39 => 0xffff_ffd8_0000_0000,
        48 => 0xffff_af80_0000_0000,
        _ => 0xff60_0000_0000_0000,
    };
    let vmalloc = page_offset - (1 << (bits - 3));
    (page_offset, vmalloc, vmalloc - (1 << (bits - 7)))
}

impl Architecture for Riscv64 {
    fn machine(&self) -> &'static str {
        "riscv64"
    }

    fn elf_machine(&self) -> u16 {
        243
    }

    fn bits(&self, _page_shift: u32) -> &'static [u32] {
        &[48, 39, 57]
    }

    /// 649d6b1019a2 added the keys.
    fn first_kernel(&self) -> (u16, u16) {
        (6, 1)
    }

    fn default_options(&self, _platform: &Platform, options: &mut Options) {
        options.levels = 0;
    }

    fn check_options(&self, spec: &Spec) -> Result<(), &'static str> {
        if spec.options.kaslr != 0 && !spec.kernel.since(6, 7) {
            return Err("kaslr= needs a kernel from 6.7 on");
        }
        Ok(())
    }

    fn check_layout(&self, spec: &Spec) -> Result<(), &'static str> {
        let kaslr = spec.options.kaslr;
        if kaslr.is_multiple_of(1 << 21) && kaslr < 1 << 30 {
            Ok(())
        } else {
            Err("kaslr=: expected a multiple of 2 MiB below 1 GiB")
        }
    }

    fn leaf_shift(&self, _platform: &Platform, leaf: Leaf) -> Option<u32> {
        match leaf {
            Leaf::Contiguous => Some(16),
            Leaf::Large => Some(21),
            Leaf::Giant => Some(30),
            Leaf::Small => None,
        }
    }

    fn section_size_bits(&self, _spec: &Spec) -> u32 {
        27
    }

    fn max_physmem_bits(&self, _spec: &Spec) -> u32 {
        56
    }

    /// VMCOREINFO of Debian's kernel 6.12.
    fn zones(&self, kernel: &Kernel) -> ZoneLayout {
        ZoneLayout {
            pglist_size: 9280,
            nr_zones: 6688,
            node_start_pfn: 6696,
            node_spanned_pages: 6712,
            node_id: 6720,
            zone_size: 1536,
            free_area: 256,
            vm_stat: 1344,
            zone_spanned_pages: 152,
            free_area_size: 88,
            migrate_types: 5,
            mem_section_size: kernel.zones.mem_section_size,
        }
    }

    fn usual_ram_base(&self) -> u64 {
        2 << 30
    }

    fn max_nodes(&self) -> u64 {
        4
    }

    fn memory_failure(&self) -> bool {
        false
    }

    fn areas(&self, spec: &Spec, ram_base: u64) -> Areas {
        let (page_offset, vmalloc, vmemmap) = starts(spec.platform.bits);
        // Struct pages are counted from the start of RAM since a11dd49dcb93.
        let first = if spec.kernel.since(6, 9) {
            (ram_base >> 12) * 64
        } else {
            0
        };
        Areas {
            page_offset: page_offset.wrapping_sub(ram_base),
            vmemmap: vmemmap.wrapping_sub(first),
            vmalloc,
            image_virt: Some(KERNEL_LINK_ADDR + spec.options.kaslr),
            // Without va_kernel_pa_offset readers take the image for the start of RAM.
            image_phys: (!spec.kernel.since(6, 4)).then_some(ram_base),
        }
    }

    fn codec(&self, spec: &Spec, _layout: &Layout) -> Box<dyn Codec> {
        Box::new(Entries {
            bits: spec.platform.bits,
        })
    }

    fn vmcoreinfo(&self, info: &mut Info, spec: &Spec, layout: &Layout) {
        let kernel = spec.kernel;
        let (page_offset, vmalloc, vmemmap) = starts(spec.platform.bits);
        info.number("phys_ram_base", layout.ram_base.cast_signed());
        info.hex("PAGE_OFFSET", page_offset);
        if !kernel.since(6, 9) {
            info.hex("VMALLOC_START", vmalloc);
        }
        info.hex("VMALLOC_END", page_offset);
        info.number("VA_BITS", spec.platform.bits);
        info.hex("VMEMMAP_START", vmemmap);
        info.hex("VMEMMAP_END", vmalloc);
        // Modules are the 2 GiB before the end of the image.
        info.hex("MODULES_VADDR", KERNEL_LINK_ADDR - (1 << 31) + 0x100_0000);
        info.hex("MODULES_END", KERNEL_LINK_ADDR);
        info.hex("KERNEL_LINK_ADDR", KERNEL_LINK_ADDR);
        // 6.4.
        if kernel.since(6, 4) {
            info.hex(
                "va_kernel_pa_offset",
                layout.image_virt.wrapping_sub(layout.image_phys),
            );
        }
    }

    /// `struct user_regs_struct`: pc, ra, sp, gp, tp, t0 to t2, s0, …
    fn prstatus(&self, registers: &Registers, order: ByteOrder) -> Vec<u8> {
        let words = [
            (0, registers.pc),
            (8, registers.lr),
            (16, registers.sp),
            (64, registers.fp),
        ];
        prstatus(order, 376, &words)
    }

    /// The frame pointer is after the record.
    fn stack(&self, _spec: &Spec, outermost: u64, calls: &[u64]) -> Frames {
        frame_records(outermost, calls, -16, |_, call| call)
    }
}

const VALID: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXEC: u64 = 1 << 3;
/// Global, accessed, dirty.
const KERNEL: u64 = 1 << 5 | 1 << 6 | 1 << 7;
/// Svnapot: the low bits of the page number tell the size, 0b1000 for 64 KiB.
const NAPOT: u64 = 1 << 63;
const NAPOT_64K: u64 = 8;

#[derive(Debug)]
struct Entries {
    bits: u32,
}

impl Codec for Entries {
    fn levels(&self) -> Vec<Level> {
        let mut levels: Vec<_> = (12..self.bits)
            .step_by(9)
            .map(|shift| Level { shift, bits: 9 })
            .collect();
        levels.reverse();
        levels
    }

    fn table(&self, _height: usize, next: u64) -> u64 {
        next >> 12 << 10 | VALID
    }

    fn leaf(&self, _height: usize, paddr: u64, attributes: Attributes) -> u64 {
        let exec = if attributes.exec { EXEC } else { 0 };
        let flags = VALID | READ | WRITE | KERNEL | exec;
        let page = paddr >> 12;
        if attributes.contiguous {
            (page & !0xf | NAPOT_64K) << 10 | flags | NAPOT
        } else {
            page << 10 | flags
        }
    }

    fn read(&self, _height: usize, entry: u64) -> Entry {
        if entry & VALID == 0 {
            Entry::Empty
        } else if entry & (READ | WRITE | EXEC) != 0 {
            Entry::Leaf
        } else {
            Entry::Table((entry >> 10 & ((1 << 44) - 1)) << 12)
        }
    }
}
