//! s390x: big-endian; three to five levels of page tables.
//!
//! z/Architecture Principles of Operation, "Dynamic Address Translation"; entries:
//! arch/s390/include/asm/pgtable.h; addresses: setup_kernel_memory_layout() of
//! arch/s390/boot/startup.c. Until 6.9 the image's virtual addresses are physical ones.

use crate::arch::contract::{Architecture, Areas, Block, Ground, prstatus};
use crate::error::SynthError;
use crate::frames::{Frames, Registers, frame_addresses};
use crate::kernels::{Kernel, ZoneLayout};
use crate::layout::Layout;
use crate::machine::Mapping;
use crate::notes::Notes;
use crate::order::ByteOrder;
use crate::paging::{Attributes, Codec, Entry, Level};
use crate::platform::Platform;
use crate::spec::{Leaf, Options, Spec};
use crate::vmcoreinfo::Info;

/// CPUs in lowcore_ptr: CONFIG_NR_CPUS.
const CPUS: u64 = 256;
/// Bytes of a lowcore, at address 0 and for every CPU.
const LOWCORE: u64 = 0x2000;
/// lowcore.vmcore_info and lowcore.os_info, arch/s390/include/asm/lowcore.h.
const VMCORE_INFO: u64 = 0xe0c;
const OS_INFO: u64 = 0xe18;
/// OS_INFO_MAGIC: "OSINFOSZ", arch/s390/include/asm/os_info.h.
const OS_INFO_MAGIC: u64 = 0x4f53_494e_464f_535a;
/// Pages between __samode31 and __eamode31.
const AMODE31_PAGES: u64 = 3;

/// Objects in the image.
const LOWCORE_PTR: u64 = 0;
const HIGH_MEMORY: u64 = 0x1000;
/// Physical address of the first page of amode31, which readers find in VMCOREINFO.
const AMODE31: u64 = 0x1008;

#[derive(Debug)]
pub(super) struct S390x;

/// True if the image has virtual addresses of its own (c98d2ecae08f).
fn has_own_addresses(spec: &Spec) -> bool {
    spec.kernel.since(6, 10)
}

/// The end of the addresses that the levels translate.
fn vmax(levels: u8) -> u64 {
    match levels {
        3 => 1 << 42,
        4 => 1 << 53,
        _ => 0xffff_f000_0000_0000,
    }
}

/// The start of the image without KASLR, if it has its own addresses.
fn image_base(levels: u8) -> u64 {
    vmax(levels) - (3 << 29)
}

impl Architecture for S390x {
    fn machine(&self) -> &'static str {
        "s390x"
    }

    fn elf_machine(&self) -> u16 {
        22
    }

    fn order(&self) -> ByteOrder {
        ByteOrder::Big
    }

    fn default_options(&self, _platform: &Platform, options: &mut Options) {
        options.levels = 3;
    }

    fn check_options(&self, spec: &Spec) -> Result<(), &'static str> {
        let options = &spec.options;
        if !matches!(options.levels, 3..=5) {
            return Err("levels= wants 3, 4 or 5");
        }
        let base = options.page_offset.unwrap_or(0);
        if !base.is_multiple_of(1 << 31) || base >= vmax(options.levels) >> 2 {
            return Err("page_offset=: expected a multiple of 2 GiB in the low addresses");
        }
        if (base != 0 || options.kaslr != 0) && !has_own_addresses(spec) {
            return Err("page_offset= and kaslr= need a kernel from 6.10 on");
        }
        Ok(())
    }

    fn check_layout(&self, spec: &Spec) -> Result<(), &'static str> {
        let kaslr = spec.options.kaslr;
        if kaslr.is_multiple_of(1 << 20) && kaslr < 1 << 30 {
            Ok(())
        } else {
            Err("kaslr=: expected a multiple of 1 MiB below 1 GiB")
        }
    }

    fn leaf_shift(&self, _platform: &Platform, leaf: Leaf) -> Option<u32> {
        match leaf {
            Leaf::Large => Some(20),
            Leaf::Giant => Some(31),
            _ => None,
        }
    }

    /// arch/s390/include/asm/sparsemem.h.
    fn section_size_bits(&self, spec: &Spec) -> u32 {
        if spec.kernel.since(6, 13) { 27 } else { 28 }
    }

    /// CONFIG_MAX_PHYSMEM_BITS.
    fn max_physmem_bits(&self, _spec: &Spec) -> u32 {
        46
    }

    /// ZONE_DMA is below 2 GiB, and there is no ZONE_DMA32.
    fn zone_ends(&self) -> [u64; 2] {
        [1 << 31, 1 << 31]
    }

    /// VMCOREINFO of Debian's kernel 6.1.
    fn zones(&self, kernel: &Kernel) -> ZoneLayout {
        ZoneLayout {
            pglist_size: 8704,
            nr_zones: 6208,
            node_start_pfn: 6216,
            node_spanned_pages: 6232,
            node_id: 6240,
            zone_size: 2048,
            free_area: 256,
            vm_stat: 1792,
            zone_spanned_pages: 120,
            free_area_size: 104,
            migrate_types: 6,
            mem_section_size: kernel.zones.mem_section_size,
        }
    }

    fn max_nodes(&self) -> u64 {
        64
    }

    fn memory_failure(&self) -> bool {
        false
    }

    fn areas(&self, spec: &Spec, _ram_base: u64) -> Areas {
        let levels = spec.options.levels;
        let own = has_own_addresses(spec);
        let image = own.then(|| image_base(levels) + spec.options.kaslr);
        // Modules are the last 2 GiB, below the image if it has its own addresses.
        let modules = match own {
            true => image_base(levels) - (1 << 31),
            false => vmax(levels) - (1 << 31),
        };
        let vmalloc = modules - (128 << 30);
        // The struct pages of all memory that the kernel could address.
        let struct_pages = (1_u64 << self.max_physmem_bits(spec)) >> 12 << 6;
        let struct_pages = struct_pages.min(vmax(levels) >> 3);
        Areas {
            page_offset: spec.options.page_offset.unwrap_or(0),
            vmemmap: (vmalloc - struct_pages) & !((1 << 31) - 1),
            vmalloc,
            image_virt: image,
            image_phys: None,
        }
    }

    fn codec(&self, spec: &Spec, _layout: &Layout) -> Box<dyn Codec> {
        Box::new(Entries {
            levels: spec.options.levels,
        })
    }

    /// The first two pages are the lowcore.
    fn reserve(&self, ground: &mut Ground<'_>) -> Result<(), SynthError> {
        let pages = LOWCORE / ground.layout.page_size;
        let pfn = ground.frames.alloc_at(0, pages)?;
        (pfn..pfn + pages).for_each(|pfn| ground.memory.own(pfn));
        Ok(())
    }

    fn extra(&self, ground: &mut Ground<'_>, _: &[Block]) -> Result<Vec<Mapping>, SynthError> {
        let layout = ground.layout.clone();
        let object = |offset| layout.image_paddr(layout.arch_object(offset));
        for cpu in 0..u64::from(ground.spec.options.cpus).min(CPUS) {
            let lowcore = layout.direct(ground.pages(LOWCORE / layout.page_size)?);
            ground
                .memory
                .write_u64(object(LOWCORE_PTR) + cpu * 8, lowcore)?;
        }
        let end = ground.memory.max_pfn() * layout.page_size;
        ground
            .memory
            .write_u64(object(HIGH_MEMORY), layout.direct(end))?;
        let amode31 = ground.pages(AMODE31_PAGES)?;
        ground.memory.write_u64(object(AMODE31), amode31)?;
        ground.layout.fixed = amode31;
        if layout.page_offset == 0 {
            return Ok(Vec::new());
        }
        // Both are mapped to themselves.
        let same = |start: u64, len| Mapping {
            virt: start..start + len,
            paddr: start,
        };
        let amode31_bytes = AMODE31_PAGES * layout.page_size;
        Ok(vec![same(0, LOWCORE), same(amode31, amode31_bytes)])
    }

    /// Writes the pointer to VMCOREINFO's note, and os_info, which points to it too.
    fn publish(&self, ground: &mut Ground<'_>, text: &str) -> Result<(), SynthError> {
        let mut notes = Notes::new(ByteOrder::Big);
        notes.push("VMCOREINFO", 0, text.as_bytes());
        // With its header the note may be larger than a page.
        let note = ground.pages(2)?;
        ground.memory.write(note, &notes.bytes)?;
        ground.memory.write_u64(VMCORE_INFO, note)?;

        let os_info = ground.pages(1)?;
        let memory = &mut *ground.memory;
        memory.write_u64(os_info, OS_INFO_MAGIC)?;
        // Version 1.1, then a reserved word: the entries {address, size, checksum} of 20 bytes
        // begin at offset 32, of which the first one is OS_INFO_VMCOREINFO.
        memory.write(os_info + 12, &[0, 1, 0, 1])?;
        let len = notes.bytes.len() as u64;
        memory.write_u64(os_info + 32, note)?;
        memory.write_u64(os_info + 40, len)?;
        memory.write_u32(os_info + 48, checksum(&notes.bytes))?;
        let rest = memory.read(os_info + 12, 4096 - 12).unwrap_or_default();
        memory.write_u32(os_info + 8, checksum(&rest))?;
        memory.write_u64(OS_INFO, os_info)
    }

    fn vmcoreinfo(&self, info: &mut Info, spec: &Spec, layout: &Layout) {
        info.symbol("lowcore_ptr", layout.arch_object(LOWCORE_PTR));
        info.symbol("high_memory", layout.arch_object(HIGH_MEMORY));
        info.length("lowcore_ptr", CPUS);
        let hex = |value: u64| format!("{value:x}");
        // Called SDMA and EDMA before.
        if spec.kernel.since(5, 15) {
            let end = layout.fixed + AMODE31_PAGES * layout.page_size;
            info.line("SAMODE31", hex(layout.fixed));
            info.line("EAMODE31", hex(end));
        }
        if has_own_addresses(spec) {
            info.line("IDENTITYBASE", hex(layout.page_offset));
            info.line("KERNELOFFSET", hex(layout.image_virt));
            info.line("KERNELOFFPHYS", hex(layout.image_phys));
        } else {
            info.line("KERNELOFFSET", hex(0));
        }
    }

    /// `s390_regs`: the PSW, r0 to r15, access registers, orig_gpr2.
    fn prstatus(&self, registers: &Registers, order: ByteOrder) -> Vec<u8> {
        let words = [
            // Translation on, 64-bit addressing, home space.
            (0, 0x0404_c001_8000_0000),
            (8, registers.pc),
            (16 + 14 * 8, registers.lr),
            (16 + 15 * 8, registers.sp),
        ];
        prstatus(order, 336, &words)
    }

    /// -mbackchain -mpacked-stack: a frame has the back chain at offset 152 and r14 at 136, of
    /// which the latter is the return address of the function that it called. The registers of
    /// user space follow the last frame.
    fn stack(&self, _spec: &Spec, outermost: u64, calls: &[u64]) -> Frames {
        let addresses = frame_addresses(outermost, calls);
        let mut words = Vec::new();
        for (pair, call) in addresses.windows(2).zip(&calls[1..]) {
            words.extend([(pair[0] + 152, pair[1]), (pair[1] + 136, *call)]);
        }
        words.push((outermost + 152, 0));
        // `struct pt_regs`: the PSW, in problem state, is after one word.
        words.push((outermost + 160 + 8, 0x0705_2001_8000_0000));
        Frames {
            words,
            registers: Registers {
                pc: calls[0],
                sp: addresses[0],
                fp: 0,
                lr: calls.get(1).copied().unwrap_or(0),
            },
        }
    }

    /// The notes that the kernel writes for each CPU, arch/s390/kernel/crash_dump.c.
    fn cpu_notes(&self, cpu: u32, notes: &mut Notes) {
        notes.push("CORE", 2, &[0; 136]); // NT_PRFPREG
        for (kind, len) in [(0x301, 8), (0x302, 8), (0x303, 4), (0x304, 128)] {
            notes.push("LINUX", kind, &vec![0; len]);
        }
        notes.push("LINUX", 0x305, &(cpu << 13).to_be_bytes()); // NT_S390_PREFIX
        notes.push("LINUX", 0x309, &[0; 128]);
        notes.push("LINUX", 0x30a, &[0; 256]);
    }

    fn image_load(&self, spec: &Spec) -> bool {
        has_own_addresses(spec)
    }
}

/// csum_partial() of a block: the sum of its words with the carries added, as
/// os_info_csum() computes it with CKSM.
fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = 0_u64;
    for chunk in bytes.chunks(4) {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        sum += u64::from(u32::from_be_bytes(word));
    }
    while sum >> 32 != 0 {
        sum = (sum & 0xffff_ffff) + (sum >> 32);
    }
    sum as u32
}

/// Region and segment entries.
const INVALID: u64 = 0x20;
/// Format control: a leaf.
const LARGE: u64 = 0x400;
/// Table length: all four quarters.
const LENGTH: u64 = 3;
/// Bits of the type of a region entry: height minus one.
const TYPE: u32 = 2;
/// Page table entries.
const PAGE_INVALID: u64 = 0x400;
const PAGE_PROTECT: u64 = 0x200;
/// `_PAGE_PRESENT`, `_PAGE_YOUNG`, `_PAGE_DIRTY`, `_PAGE_READ`, `_PAGE_WRITE`: software's.
const PAGE_SOFTWARE: u64 = 0x1 | 0x4 | 0x8 | 0x10 | 0x20;
const PAGE_NO_EXEC: u64 = 0x100;
/// `_SEGMENT_ENTRY_DIRTY` and so on, and no execute.
const LARGE_SOFTWARE: u64 = 0x3000;
const LARGE_NO_EXEC: u64 = 0x100;

#[derive(Debug)]
struct Entries {
    levels: u8,
}

impl Codec for Entries {
    /// Page index 8 bits, segment and region indices 11 bits each.
    fn levels(&self) -> Vec<Level> {
        let all = [(53, 11), (42, 11), (31, 11), (20, 11), (12, 8)];
        // Three levels are region third, segment and page table.
        let skipped = 5 - usize::from(self.levels.clamp(3, 5));
        let level = |(shift, bits)| Level { shift, bits };
        all.into_iter().skip(skipped).map(level).collect()
    }

    fn order(&self) -> ByteOrder {
        ByteOrder::Big
    }

    fn empty(&self, height: usize) -> u64 {
        match height {
            0 => PAGE_INVALID,
            1 => INVALID,
            _ => (height as u64 - 1) << TYPE | LENGTH | INVALID,
        }
    }

    fn table(&self, height: usize, next: u64) -> u64 {
        match height {
            // A segment entry.
            1 => next,
            _ => next | (height as u64 - 1) << TYPE | LENGTH,
        }
    }

    fn leaf(&self, height: usize, paddr: u64, attributes: Attributes) -> u64 {
        let protect = if attributes.exec { PAGE_PROTECT } else { 0 };
        match (height, attributes.exec) {
            (0, true) => paddr | PAGE_SOFTWARE | protect,
            (0, false) => paddr | PAGE_SOFTWARE | PAGE_NO_EXEC,
            (_, exec) => {
                let no_exec = if exec { 0 } else { LARGE_NO_EXEC };
                paddr | (height as u64 - 1) << TYPE | LARGE | LARGE_SOFTWARE | no_exec
            }
        }
    }

    fn read(&self, height: usize, entry: u64) -> Entry {
        match height {
            0 if entry & PAGE_INVALID != 0 => Entry::Empty,
            0 => Entry::Leaf,
            _ if entry & INVALID != 0 => Entry::Empty,
            1 | 2 if entry & LARGE != 0 => Entry::Leaf,
            1 => Entry::Table(entry & !0x7ff),
            _ => Entry::Table(entry & !0xfff),
        }
    }
}
