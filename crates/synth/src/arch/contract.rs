//! What the builder asks an architecture.

use std::fmt::Debug;

use crate::error::SynthError;
use crate::frames::{Frames, Registers, frame_records};
use crate::kernels::{HeadLink, Kernel, ZoneLayout};
use crate::layout::Layout;
use crate::machine::Mapping;
use crate::memory::{self, Memory};
use crate::notes::Notes;
use crate::order::ByteOrder;
use crate::paging::Codec;
use crate::platform::Platform;
use crate::spec::{Leaf, Options, Spec};
use crate::vmcoreinfo::Info;

/// Where the kernel has placed the areas of its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Areas {
    /// Address of physical address 0 in the linear map; below its start if RAM begins later.
    pub(crate) page_offset: u64,
    /// Address of the struct page of frame 0; below the mapped part if RAM begins later.
    pub(crate) vmemmap: u64,
    /// Start of vmalloc's addresses.
    pub(crate) vmalloc: u64,
    /// Address of the image; `None` if it is used through the linear map.
    pub(crate) image_virt: Option<u64>,
    /// Physical address of the image; `None` to let the builder choose.
    pub(crate) image_phys: Option<u64>,
}

/// The builder's memory, for what only one architecture has.
pub(crate) struct Ground<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) layout: &'a mut Layout,
    pub(crate) memory: &'a mut Memory,
    pub(crate) frames: &'a mut memory::Frames,
}

impl Ground<'_> {
    /// Allocates pages that are filled with zeros; returns their physical address.
    pub(crate) fn pages(&mut self, count: u64) -> Result<u64, SynthError> {
        let pfn = self.frames.alloc(count, 1)?;
        (pfn..pfn + count).for_each(|pfn| self.memory.own(pfn));
        Ok(pfn * self.layout.page_size)
    }
}

/// A block of struct pages in memory: its virtual and physical address.
pub(crate) type Block = (u64, u64);

/// What the builder asks an architecture.
pub(crate) trait Architecture: Debug + Sync {
    /// Returns utsname.machine.
    fn machine(&self) -> &'static str;

    /// Returns e_machine.
    fn elf_machine(&self) -> u16;

    /// Returns the order of words in memory.
    fn order(&self) -> ByteOrder {
        ByteOrder::Little
    }

    /// Returns log2 of the possible page sizes, the default one first.
    fn page_shifts(&self) -> &'static [u32] {
        &[12]
    }

    /// Returns the possible bits of virtual addresses, the default first; empty if the option
    /// `levels` selects them.
    fn bits(&self, _page_shift: u32) -> &'static [u32] {
        &[]
    }

    /// Checks the settings of an `arch` line.
    fn check_platform(&self, platform: &Platform) -> Result<(), &'static str> {
        if platform.hash || platform.memstart.is_some() {
            return Err("mmu= is for ppc64, memstart= is for arm64");
        }
        if platform.hardware_bits != platform.bits {
            return Err("hardware_bits= is for arm64");
        }
        Ok(())
    }

    /// Returns the first kernel that can be imitated.
    fn first_kernel(&self) -> (u16, u16) {
        (4, 19)
    }

    /// Changes the default options.
    fn default_options(&self, platform: &Platform, options: &mut Options);

    /// Checks the options that this architecture interprets.
    fn check_options(&self, spec: &Spec) -> Result<(), &'static str>;

    /// Checks the options that are offsets of the layout.
    fn check_layout(&self, spec: &Spec) -> Result<(), &'static str> {
        if spec.options.kaslr.is_multiple_of(1 << 21) {
            Ok(())
        } else {
            Err("kaslr=: expected a multiple of 2 MiB")
        }
    }

    /// Returns log2 of the size of a leaf above a page, if there is one.
    fn leaf_shift(&self, platform: &Platform, leaf: Leaf) -> Option<u32>;

    /// Returns SECTION_SIZE_BITS.
    fn section_size_bits(&self, spec: &Spec) -> u32;

    /// Returns MAX_PHYSMEM_BITS.
    fn max_physmem_bits(&self, spec: &Spec) -> u32;

    /// Returns NR_PAGE_ORDERS: LENGTH(zone.free_area).
    fn page_orders(&self, _platform: &Platform) -> u8 {
        11
    }

    /// Returns the physical addresses after ZONE_DMA and ZONE_DMA32.
    fn zone_ends(&self) -> [u64; 2] {
        [0, 1 << 32]
    }

    /// Returns where RAM usually begins.
    fn usual_ram_base(&self) -> u64 {
        0
    }

    /// Returns the layout of zones and nodes.
    fn zones(&self, kernel: &Kernel) -> ZoneLayout;

    /// Returns MAX_NUMNODES.
    fn max_nodes(&self) -> u64;

    /// True if the kernel has CONFIG_MEMORY_FAILURE.
    fn memory_failure(&self) -> bool {
        true
    }

    /// Returns the form of the link from tail to head for a kernel that has two.
    fn head_link(&self) -> HeadLink {
        HeadLink::InfoMask
    }

    /// Returns the areas of memory; `ram_base` is the first address of RAM.
    fn areas(&self, spec: &Spec, ram_base: u64) -> Areas;

    /// True if page tables map the linear map, rather than the hardware without them.
    fn linear_map_in_tables(&self, _spec: &Spec) -> bool {
        true
    }

    /// True if page tables map struct pages.
    fn vmemmap_in_tables(&self, _spec: &Spec) -> bool {
        true
    }

    /// True if hugetlb pages can share struct pages.
    fn has_optimized_vmemmap(&self) -> bool {
        true
    }

    /// Returns the format of page tables.
    fn codec(&self, spec: &Spec, layout: &Layout) -> Box<dyn Codec>;

    /// Reserves memory at fixed addresses, before everything else.
    fn reserve(&self, _ground: &mut Ground<'_>) -> Result<(), SynthError> {
        Ok(())
    }

    /// Writes what only this architecture has. `blocks` are the struct pages. Returns further
    /// mappings by pages.
    fn extra(&self, _: &mut Ground<'_>, _blocks: &[Block]) -> Result<Vec<Mapping>, SynthError> {
        Ok(Vec::new())
    }

    /// Writes what refers to the page with VMCOREINFO.
    fn publish(&self, _ground: &mut Ground<'_>, _text: &str) -> Result<(), SynthError> {
        Ok(())
    }

    /// Writes arch_crash_save_vmcoreinfo()'s lines.
    fn vmcoreinfo(&self, info: &mut Info, spec: &Spec, layout: &Layout);

    /// Returns the bytes of `struct elf_prstatus` with the registers of a CPU.
    fn prstatus(&self, registers: &Registers, order: ByteOrder) -> Vec<u8>;

    /// Returns a stack whose frames have these return addresses, the innermost first; the first
    /// one is the program counter. `outermost` is the address of the last frame.
    fn stack(&self, _spec: &Spec, outermost: u64, calls: &[u64]) -> Frames {
        frame_records(outermost, calls, 0, |_, call| call)
    }

    /// Adds the notes of a CPU that follow its NT_PRSTATUS.
    fn cpu_notes(&self, _cpu: u32, _notes: &mut Notes) {}

    /// True if /proc/vmcore has a PT_LOAD of the image.
    fn image_load(&self, _spec: &Spec) -> bool {
        true
    }

    /// True if QEMU's dump has a VMCOREINFO note.
    fn qemu_has_vmcoreinfo(&self) -> bool {
        false
    }
}

/// Returns `struct elf_prstatus` of a number of bytes, with words at offsets in pr_reg.
pub(crate) fn prstatus(order: ByteOrder, bytes: usize, words: &[(usize, u64)]) -> Vec<u8> {
    // pr_reg follows signals, process numbers and times.
    const PR_REG: usize = 112;
    let mut out = vec![0; bytes];
    for (at, value) in words {
        order.put64(&mut out, PR_REG + at, *value);
    }
    out
}
