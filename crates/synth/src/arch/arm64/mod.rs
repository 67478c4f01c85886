//! arm64: pages of 4, 16 and 64 KiB; virtual addresses of 36 to 52 bits.
//!
//! Addresses: arch/arm64/include/asm/memory.h and Documentation/arch/arm64/memory.rst.

mod descriptors;

use crate::arch::contract::{Architecture, Areas, prstatus};
use crate::frames::{Frames, Registers, frame_records};
use crate::kernels::{HeadLink, Kernel, ZoneLayout};
use crate::layout::Layout;
use crate::order::ByteOrder;
use crate::paging::Codec;
use crate::platform::Platform;
use crate::spec::{Leaf, Options, Spec};
use crate::vmcoreinfo::Info;

use descriptors::Descriptors;

#[derive(Debug)]
pub(super) struct Arm64;

/// Returns the first address of those that have only this number of bits: -(1 << bits).
fn top(bits: u32) -> u64 {
    (1_u64 << bits).wrapping_neg()
}

/// VA_BITS_MIN: the bits that every machine has which can run the kernel.
fn bits_min(platform: &Platform) -> u32 {
    // 9684ec186f8f lets kernels with pages of 16 KiB and 52 bits run with 47.
    match (platform.page_shift, platform.bits) {
        (14, 52) => 47,
        (_, 52) => 48,
        (_, bits) => bits,
    }
}

/// True if the linear map is the lower half of the kernel's addresses (14c127c957c1).
fn is_flipped(spec: &Spec) -> bool {
    spec.kernel.since(5, 4)
}

fn page_offset(spec: &Spec) -> u64 {
    let bits = spec.platform.bits;
    top(if is_flipped(spec) { bits } else { bits - 1 })
}

/// memstart_addr: the start of RAM, aligned as ARM64_MEMSTART_ALIGN asks for.
fn memstart(spec: &Spec, ram_base: u64) -> u64 {
    let platform = &spec.platform;
    let align = if platform.page_shift == 16 { 29 } else { 30 };
    let start = match platform.memstart {
        Some(start) => start.cast_unsigned(),
        None => ram_base & !((1 << align) - 1),
    };
    // A kernel of 52 bits on hardware without them uses the addresses that this hardware has:
    // arm64_memblock_init() of arch/arm64/mm/init.c.
    let shift = top(platform.hardware_bits).wrapping_sub(top(platform.bits));
    start.wrapping_sub(shift)
}

/// MODULES_VADDR and MODULES_END. KIMAGE_VADDR, without the offset of KASLR, is the latter.
fn modules(spec: &Spec) -> (u64, u64) {
    // 128 MiB, 2 GiB from 6.5 on (3e35d303ab7d).
    let size = if spec.kernel.since(6, 5) {
        1 << 31
    } else {
        1 << 27
    };
    let start = if is_flipped(spec) {
        top(bits_min(&spec.platform) - 1)
    } else {
        top(spec.platform.bits)
    };
    (start, start + size)
}

/// VMEMMAP_START and VMEMMAP_END.
fn vmemmap(spec: &Spec) -> (u64, u64) {
    let platform = &spec.platform;
    // log2 of the frames for each byte of struct pages.
    let shift = platform.page_shift - 6;
    let range = if is_flipped(spec) {
        top(bits_min(platform) - 1).wrapping_sub(page_offset(spec))
    } else {
        1 << (platform.bits - 1)
    };
    let size = range >> shift;
    if spec.kernel.since(6, 9) {
        // 32697ff38287.
        let end = top(30);
        (end - size, end)
    } else if spec.kernel.since(5, 11) {
        // 8c96400d6a39.
        let start = top(platform.bits - shift);
        (start, start + size)
    } else if is_flipped(spec) {
        let end = top(21);
        (end - size, end)
    } else {
        let end = page_offset(spec);
        (end - size, end)
    }
}

/// The number of bits that page tables translate. With pages of 64 KiB, tables are those of the
/// kernel's bits on every hardware.
fn table_bits(platform: &Platform) -> u32 {
    if platform.page_shift == 16 {
        platform.bits
    } else {
        platform.hardware_bits
    }
}

impl Architecture for Arm64 {
    fn machine(&self) -> &'static str {
        "aarch64"
    }

    fn elf_machine(&self) -> u16 {
        183
    }

    fn page_shifts(&self) -> &'static [u32] {
        &[12, 14, 16]
    }

    fn bits(&self, page_shift: u32) -> &'static [u32] {
        match page_shift {
            12 => &[48, 39, 52],
            14 => &[47, 36, 48, 52],
            _ => &[48, 42, 52],
        }
    }

    fn check_platform(&self, platform: &Platform) -> Result<(), &'static str> {
        if platform.hash {
            return Err("mmu= is for ppc64");
        }
        let other = platform.hardware_bits != platform.bits;
        if other && (platform.bits != 52 || platform.hardware_bits != bits_min(platform)) {
            return Err("hardware_bits= is 48 for bits=52, with pages of 16k 47");
        }
        if platform
            .memstart
            .is_some_and(|start| start % (1 << 29) != 0)
        {
            return Err("memstart=: expected a multiple of 512 MiB");
        }
        Ok(())
    }

    fn default_options(&self, platform: &Platform, options: &mut Options) {
        options.levels = 0;
        if platform.page_shift > 12 {
            options.direct = Leaf::Small;
            options.vmemmap_leaf = Leaf::Small;
            options.image_leaf = Leaf::Small;
        }
    }

    fn check_options(&self, spec: &Spec) -> Result<(), &'static str> {
        // LPA (f77d281713d4) came in 5.0, LPA2 in 6.9.
        let since = if spec.platform.page_shift == 16 {
            (5, 4)
        } else {
            (6, 9)
        };
        if spec.platform.bits == 52 && spec.kernel.version < since {
            return Err("the kernel does not have 52 bits with such pages");
        }
        Ok(())
    }

    /// The builder's pages of vmalloc follow the image.
    fn check_layout(&self, spec: &Spec) -> Result<(), &'static str> {
        if !spec.options.kaslr.is_multiple_of(1 << 21) || spec.options.kaslr > 4 << 30 {
            return Err("kaslr=: expected a multiple of 2 MiB up to 4 GiB");
        }
        Ok(())
    }

    fn leaf_shift(&self, platform: &Platform, leaf: Leaf) -> Option<u32> {
        let shift = platform.page_shift;
        let per_level = shift - 3;
        match leaf {
            // CONT_PTE_SHIFT.
            Leaf::Contiguous if shift == 14 => Some(21),
            Leaf::Contiguous => Some(shift + if shift == 12 { 4 } else { 5 }),
            Leaf::Large => Some(shift + per_level),
            // Blocks of the third level, but with pages of 4 KiB, need LPA or LPA2.
            Leaf::Giant if shift == 12 || platform.hardware_bits == 52 => {
                Some(shift + 2 * per_level)
            }
            _ => None,
        }
    }

    /// arch/arm64/include/asm/sparsemem.h; f0b13ee23241 in 5.12.
    fn section_size_bits(&self, spec: &Spec) -> u32 {
        match (spec.kernel.since(5, 12), spec.platform.page_shift) {
            (false, _) => 30,
            (true, 16) => 29,
            (true, _) => 27,
        }
    }

    /// CONFIG_ARM64_PA_BITS; from 6.12 on LPA2 counts only on hardware that has it.
    fn max_physmem_bits(&self, spec: &Spec) -> u32 {
        let platform = &spec.platform;
        let lpa2_without_hardware =
            platform.page_shift < 16 && platform.hardware_bits < 52 && spec.kernel.since(6, 12);
        if platform.bits == 52 && !lpa2_without_hardware {
            52
        } else {
            48
        }
    }

    /// CONFIG_ARCH_FORCE_MAX_ORDER is 10, 11 and 13.
    fn page_orders(&self, platform: &Platform) -> u8 {
        match platform.page_shift {
            12 => 11,
            14 => 12,
            _ => 14,
        }
    }

    /// VMCOREINFO of Debian's cloud kernels 6.1 and 6.12.
    fn zones(&self, kernel: &Kernel) -> ZoneLayout {
        let old = ZoneLayout {
            pglist_size: 11_392,
            nr_zones: 8992,
            node_start_pfn: 9000,
            node_spanned_pages: 9016,
            node_id: 9024,
            zone_size: 1728,
            free_area: 256,
            vm_stat: 1536,
            zone_spanned_pages: 136,
            free_area_size: 104,
            migrate_types: 6,
            mem_section_size: kernel.zones.mem_section_size,
        };
        if kernel.since(6, 9) {
            ZoneLayout {
                pglist_size: 14_144,
                nr_zones: 11_232,
                node_start_pfn: 11_240,
                node_spanned_pages: 11_256,
                node_id: 11_264,
                zone_spanned_pages: 160,
                ..old
            }
        } else {
            old
        }
    }

    fn usual_ram_base(&self) -> u64 {
        1 << 30
    }

    fn max_nodes(&self) -> u64 {
        16
    }

    /// arm64 has no CONFIG_HUGETLB_PAGE_OPTIMIZE_VMEMMAP (060a2c92d1b6).
    fn head_link(&self) -> HeadLink {
        HeadLink::Pointer
    }

    fn areas(&self, spec: &Spec, ram_base: u64) -> Areas {
        let memstart = memstart(spec, ram_base);
        let frames = memstart.cast_signed() >> spec.platform.page_shift;
        let (_, modules_end) = modules(spec);
        Areas {
            page_offset: page_offset(spec).wrapping_sub(memstart),
            vmemmap: vmemmap(spec).0.wrapping_add_signed(-frames * 64),
            vmalloc: modules_end,
            image_virt: Some(modules_end + spec.options.kaslr),
            image_phys: None,
        }
    }

    fn codec(&self, spec: &Spec, _layout: &Layout) -> Box<dyn Codec> {
        let platform = &spec.platform;
        Box::new(Descriptors {
            page_shift: platform.page_shift,
            bits: table_bits(platform),
            lpa: platform.page_shift == 16 && platform.bits == 52,
            lpa2: platform.page_shift < 16 && platform.hardware_bits == 52,
        })
    }

    fn vmcoreinfo(&self, info: &mut Info, spec: &Spec, layout: &Layout) {
        let kernel = spec.kernel;
        info.number("VA_BITS", spec.platform.bits);
        // 2369f171d5c5.
        if kernel.since(5, 19) {
            let (start, end) = modules(spec);
            info.hex("MODULES_VADDR", start);
            info.hex("MODULES_END", end);
            if !kernel.since(6, 9) {
                info.hex("VMALLOC_START", end);
            }
            let (start, end) = vmemmap(spec);
            let gap = if kernel.since(6, 9) { 1 << 23 } else { 1 << 28 };
            info.hex("VMALLOC_END", start - gap);
            info.hex("VMEMMAP_START", start);
            info.hex("VMEMMAP_END", end);
        }
        info.hex(
            "kimage_voffset",
            layout.image_virt.wrapping_sub(layout.image_phys),
        );
        info.hex("PHYS_OFFSET", memstart(spec, layout.ram_base));
        // bbdbc11804ff.
        if kernel.since(5, 9) {
            let size = 64 - spec.platform.hardware_bits;
            info.hex("TCR_EL1_T1SZ", size.into());
        }
        info.line("KERNELOFFSET", format_args!("{:x}", spec.options.kaslr));
        // 689eae42afd7: the bits between addresses and tags.
        if kernel.since(5, 8) {
            info.hex("KERNELPACMASK", top(spec.platform.hardware_bits));
        }
    }

    /// `struct user_pt_regs`: x0 to x30, sp, pc, pstate.
    fn prstatus(&self, registers: &Registers, order: ByteOrder) -> Vec<u8> {
        let words = [
            (29 * 8, registers.fp),
            (30 * 8, registers.lr),
            (31 * 8, registers.sp),
            (32 * 8, registers.pc),
            // EL1h with interrupts masked.
            (33 * 8, 0x3c5),
        ];
        prstatus(order, 392, &words)
    }

    /// Every second return address is signed. A typed record ends the stack from 6.13 on
    /// (c2c6b27b5aa1).
    fn stack(&self, spec: &Spec, outermost: u64, calls: &[u64]) -> Frames {
        // Any value between address and tag, but for bit 55.
        let code = 0x5a5a << 48 & top(spec.platform.hardware_bits) & !(1 << 55);
        let has_codes = spec.kernel.since(5, 8);
        let mut frames = frame_records(outermost, calls, 0, |index, call| {
            if has_codes && index % 2 == 1 {
                call ^ code
            } else {
                call
            }
        });
        if spec.kernel.since(6, 13) {
            // FRAME_META_TYPE_FINAL.
            frames.words.push((outermost + 16, 1));
        }
        frames
    }

    fn qemu_has_vmcoreinfo(&self) -> bool {
        true
    }
}
