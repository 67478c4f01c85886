//! ppc64 of either byte order (Book3S): radix and hash MMU, pages of 64 and 4 KiB.
//!
//! Power ISA, book III, "Radix Tree Translation"; index sizes and entries:
//! arch/powerpc/include/asm/book3s/64/{radix,hash}*.h. Entries of page tables are big-endian
//! whatever the order of memory. With the hash MMU Linux's tables map only vmalloc's area, and
//! vmemmap_list tells where the struct pages are.

use crate::arch::contract::{Architecture, Areas, Block, Ground, prstatus};
use crate::error::SynthError;
use crate::frames::{Frames, Registers, frame_addresses};
use crate::kernels::{HeadLink, Kernel, ZoneLayout};
use crate::layout::Layout;
use crate::machine::Mapping;
use crate::order::ByteOrder;
use crate::paging::{Attributes, Codec, Entry, Level};
use crate::platform::Platform;
use crate::spec::{Leaf, Options, Spec};
use crate::vmcoreinfo::Info;

/// Start of the linear map, which contains the image.
const PAGE_OFFSET: u64 = 0xc000_0000_0000_0000;
/// Physical address of the image.
const IMAGE: u64 = 0;

/// Objects in the image.
const VMEMMAP_LIST: u64 = 0;
const MMU_VMEMMAP_PSIZE: u64 = 8;
const CUR_CPU_SPEC: u64 = 16;
const CPU_SPEC: u64 = 0x40;
const MMU_PSIZE_DEFS: u64 = 0x100;

/// Offset of mmu_features in `struct cpu_spec`, and MMU_FTR_TYPE_RADIX.
const MMU_FEATURES: u64 = 32;
const FEATURE_RADIX: u32 = 0x40;
/// SIZE(mmu_psize_def) of Debian's kernel 6.1.
const PSIZE_DEF: u64 = 96;
/// Indices of mmu_psize_defs with log2 of their sizes: MMU_PAGE_4K, 64K, 2M, 16M, 1G.
const PAGE_SIZES: [(u32, u32); 5] = [(0, 12), (2, 16), (7, 21), (10, 24), (13, 30)];
/// SIZE(vmemmap_backing): list, phys, virt_addr.
const BACKING: u64 = 24;

/// One of the two byte orders.
#[derive(Debug)]
pub(super) struct Ppc64(pub(super) ByteOrder);

impl Architecture for Ppc64 {
    fn machine(&self) -> &'static str {
        match self.0 {
            ByteOrder::Little => "ppc64le",
            ByteOrder::Big => "ppc64",
        }
    }

    fn elf_machine(&self) -> u16 {
        21
    }

    fn order(&self) -> ByteOrder {
        self.0
    }

    fn page_shifts(&self) -> &'static [u32] {
        &[16, 12]
    }

    fn check_platform(&self, platform: &Platform) -> Result<(), &'static str> {
        if platform.memstart.is_some() || platform.hardware_bits != platform.bits {
            return Err("memstart= and hardware_bits= are for arm64");
        }
        Ok(())
    }

    fn default_options(&self, _platform: &Platform, options: &mut Options) {
        options.levels = 0;
    }

    fn check_options(&self, spec: &Spec) -> Result<(), &'static str> {
        if spec.options.kaslr != 0 {
            return Err("kaslr=: the kernel has none");
        }
        Ok(())
    }

    fn leaf_shift(&self, platform: &Platform, leaf: Leaf) -> Option<u32> {
        match leaf {
            Leaf::Large if platform.hash => Some(24),
            Leaf::Large => Some(21),
            Leaf::Giant if !platform.hash => Some(30),
            _ => None,
        }
    }

    fn section_size_bits(&self, _spec: &Spec) -> u32 {
        24
    }

    fn max_physmem_bits(&self, spec: &Spec) -> u32 {
        match (spec.kernel.version, spec.platform.page_shift) {
            ((4, 19), _) => 47,
            (version, 12) if version < (5, 10) => 46,
            _ => 51,
        }
    }

    /// CONFIG_ARCH_FORCE_MAX_ORDER is 8 and 12.
    fn page_orders(&self, platform: &Platform) -> u8 {
        if platform.page_shift == 16 { 9 } else { 13 }
    }

    /// All memory is in one zone.
    fn zone_ends(&self) -> [u64; 2] {
        [u64::MAX; 2]
    }

    /// VMCOREINFO of Debian's kernel 6.1.
    fn zones(&self, kernel: &Kernel) -> ZoneLayout {
        ZoneLayout {
            pglist_size: 21_760,
            nr_zones: 19_744,
            node_start_pfn: 19_752,
            node_spanned_pages: 19_768,
            node_id: 19_776,
            zone_size: 1664,
            free_area: 256,
            vm_stat: 1408,
            zone_spanned_pages: 120,
            free_area_size: 104,
            migrate_types: 6,
            mem_section_size: kernel.zones.mem_section_size,
        }
    }

    fn max_nodes(&self) -> u64 {
        256
    }

    fn head_link(&self) -> HeadLink {
        HeadLink::Pointer
    }

    fn has_optimized_vmemmap(&self) -> bool {
        false
    }

    fn areas(&self, spec: &Spec, _ram_base: u64) -> Areas {
        let hash = spec.platform.hash;
        let small = spec.platform.page_shift == 12;
        // 0034d395f89d moved all areas of the hash MMU to 0xc…; the radix MMU's vmemmap was where
        // I/O is since then.
        let (vmalloc, vmemmap) = match (hash, small, spec.kernel.since(5, 2)) {
            (true, _, false) => (0xd << 60, 0xf << 60),
            (true, true, true) => (0xc000_3d00_0000_0000, 0xc000_3f00_0000_0000),
            (false, _, false) => (0xc008 << 48, 0xc00a << 48),
            _ => (0xc008 << 48, 0xc00c << 48),
        };
        Areas {
            page_offset: PAGE_OFFSET,
            vmemmap,
            vmalloc,
            image_virt: None,
            image_phys: Some(IMAGE),
        }
    }

    fn linear_map_in_tables(&self, spec: &Spec) -> bool {
        !spec.platform.hash
    }

    fn vmemmap_in_tables(&self, spec: &Spec) -> bool {
        !spec.platform.hash
    }

    fn codec(&self, spec: &Spec, _layout: &Layout) -> Box<dyn Codec> {
        Box::new(Entries {
            hash: spec.platform.hash,
            page_shift: spec.platform.page_shift,
        })
    }

    fn extra(&self, ground: &mut Ground<'_>, blocks: &[Block]) -> Result<Vec<Mapping>, SynthError> {
        let spec = ground.spec;
        let layout = ground.layout.clone();
        let object = |offset| layout.image_paddr(layout.arch_object(offset));

        let leaf = spec.options.vmemmap_leaf;
        let shift = spec.platform.leaf_shift(leaf);
        for (index, size) in PAGE_SIZES {
            let at = object(MMU_PSIZE_DEFS) + u64::from(index) * PSIZE_DEF;
            ground.memory.write_u32(at, size)?;
            if Some(size) == shift {
                ground.memory.write_u32(object(MMU_VMEMMAP_PSIZE), index)?;
            }
        }
        let features = if spec.platform.hash { 0 } else { FEATURE_RADIX };
        let cpu_spec = object(CPU_SPEC);
        ground
            .memory
            .write_u32(cpu_spec + MMU_FEATURES, features | 1 << 16)?;
        ground
            .memory
            .write_u64(object(CUR_CPU_SPEC), layout.arch_object(CPU_SPEC))?;

        // 368a0590d954 in 6.6: the radix MMU does not fill the list.
        if !spec.platform.hash && spec.kernel.since(6, 6) {
            return Ok(Vec::new());
        }
        let bytes = blocks.len() as u64 * BACKING;
        let list = ground.pages(bytes.div_ceil(layout.page_size))?;
        // vmemmap_list_populate() adds at the front.
        let mut next = 0;
        for (index, (vaddr, paddr)) in blocks.iter().enumerate() {
            let at = list + index as u64 * BACKING;
            ground.memory.write_u64(at, next)?;
            ground.memory.write_u64(at + 8, *paddr)?;
            ground.memory.write_u64(at + 16, *vaddr)?;
            next = layout.direct(at);
        }
        ground.memory.write_u64(object(VMEMMAP_LIST), next)?;
        Ok(Vec::new())
    }

    fn vmcoreinfo(&self, info: &mut Info, spec: &Spec, layout: &Layout) {
        info.symbol("node_data", layout.node_data());
        info.length("node_data", self.max_nodes());
        info.symbol("vmemmap_list", layout.arch_object(VMEMMAP_LIST));
        info.symbol("mmu_vmemmap_psize", layout.arch_object(MMU_VMEMMAP_PSIZE));
        info.symbol("mmu_psize_defs", layout.arch_object(MMU_PSIZE_DEFS));
        info.size("vmemmap_backing", BACKING);
        info.offset("vmemmap_backing.list", 0);
        info.offset("vmemmap_backing.phys", 8);
        info.offset("vmemmap_backing.virt_addr", 16);
        info.size("mmu_psize_def", PSIZE_DEF);
        info.offset("mmu_psize_def.shift", 0);
        // 36e826b568e4.
        if spec.kernel.since(6, 7) {
            info.symbol("cur_cpu_spec", layout.arch_object(CUR_CPU_SPEC));
            info.offset("cpu_spec.mmu_features", MMU_FEATURES);
            info.number("RADIX_MMU", u8::from(!spec.platform.hash));
        }
        info.line("KERNELOFFSET", 0);
    }

    /// `struct pt_regs`: r0 to r31, nip, msr, orig_r3, ctr, lr, …
    fn prstatus(&self, registers: &Registers, order: ByteOrder) -> Vec<u8> {
        let words = [
            (8, registers.sp),
            (32 * 8, registers.pc),
            // Hypervisor state is off; 64 bits, and the byte order in bit 0.
            (
                33 * 8,
                0x8000_0000_0000_1032 | u64::from(self.0 == ByteOrder::Little),
            ),
            (36 * 8, registers.lr),
        ];
        prstatus(order, 504, &words)
    }

    /// The back chain: a frame begins with the address of the caller's, and the caller's frame
    /// has the return address at offset 16. Before 6.5 (b684c09f09e7) r1 of the CPU that
    /// panicked is that of the function at lr.
    fn stack(&self, spec: &Spec, outermost: u64, calls: &[u64]) -> Frames {
        let addresses = frame_addresses(outermost, calls);
        let mut words = Vec::new();
        for (pair, call) in addresses.windows(2).zip(&calls[1..]) {
            words.extend([(pair[0], pair[1]), (pair[1] + 16, *call)]);
        }
        words.push((outermost, 0));
        let own = usize::from(!spec.kernel.since(6, 5) && calls.len() > 1);
        Frames {
            words,
            registers: Registers {
                pc: calls[0],
                sp: addresses[own],
                fp: 0,
                lr: calls.get(1).copied().unwrap_or(0),
            },
        }
    }

    fn image_load(&self, _spec: &Spec) -> bool {
        false
    }
}

/// `_PAGE_PRESENT` and `_PAGE_PTE`: a leaf.
const PRESENT: u64 = 1 << 63;
const LEAF: u64 = 1 << 62;
/// `_PAGE_ACCESSED`, `_PAGE_DIRTY`, `_PAGE_PRIVILEGED`, `_PAGE_READ`, `_PAGE_WRITE`.
const KERNEL: u64 = 0x100 | 0x80 | 0x8 | 0x4 | 0x2;
const EXEC: u64 = 1;
/// H_PAGE_HASHPTE, above the bits of an address.
const HASHED: u64 = 1 << 54;
/// Bits of a physical address in an entry.
const ADDRESS: u64 = (1 << 53) - 1;

#[derive(Debug)]
struct Entries {
    hash: bool,
    page_shift: u32,
}

impl Codec for Entries {
    fn levels(&self) -> Vec<Level> {
        let bits: [u32; 4] = match (self.hash, self.page_shift) {
            (false, 16) => [13, 9, 9, 5],
            (false, _) => [13, 9, 9, 9],
            (true, 16) => [8, 10, 10, 8],
            (true, _) => [9, 9, 7, 9],
        };
        let mut shift = self.page_shift;
        let mut levels: Vec<_> = bits
            .into_iter()
            .rev()
            .map(|bits| {
                let level = Level { shift, bits };
                shift += bits;
                level
            })
            .collect();
        levels.reverse();
        levels
    }

    fn order(&self) -> ByteOrder {
        ByteOrder::Big
    }

    /// swapper_pg_dir is large enough for both MMUs. Page tables of the hash MMU with pages of
    /// 64 KiB have a second half, of hash slots.
    fn table_bytes(&self, height: usize) -> u64 {
        let bits = self.levels()[3 - height].bits;
        match height {
            3 => 8 << 13,
            0 if self.hash && self.page_shift == 16 => 16 << bits,
            _ => 8 << bits,
        }
    }

    /// The radix MMU reads the size of the next table from the low bits.
    fn table(&self, height: usize, next: u64) -> u64 {
        let size = if self.hash {
            0
        } else {
            u64::from(self.levels()[4 - height].bits)
        };
        next | PRESENT | size
    }

    fn leaf(&self, _height: usize, paddr: u64, attributes: Attributes) -> u64 {
        let exec = if attributes.exec { EXEC } else { 0 };
        let hashed = if self.hash { HASHED } else { 0 };
        paddr | PRESENT | LEAF | KERNEL | exec | hashed
    }

    fn read(&self, _height: usize, entry: u64) -> Entry {
        if entry & PRESENT == 0 {
            Entry::Empty
        } else if entry & LEAF != 0 {
            Entry::Leaf
        } else {
            Entry::Table(entry & ADDRESS & !0xff)
        }
    }
}
