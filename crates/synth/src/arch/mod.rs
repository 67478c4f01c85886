//! The architectures that can be imitated. Each one is a file and a line of [`ALL`].

mod arm64;
mod loongarch64;
mod ppc64;
mod riscv64;
mod s390x;
mod x86_64;

pub(crate) use x86_64::sme_mask;

use std::fmt::Debug;

use crate::error::SynthError;
use crate::kernels::{HeadLink, Kernel, ZoneLayout};
use crate::layout::Layout;
use crate::machine::Mapping;
use crate::memory::{self, Memory};
use crate::notes::Notes;
use crate::order::ByteOrder;
use crate::paging::Codec;
use crate::spec::{Leaf, Options, Spec};
use crate::stacks::{Frames, frame_records};
use crate::vmcoreinfo::Info;

/// Names in a text, and the architectures.
static ALL: [(&str, &dyn Architecture); 7] = [
    ("x86_64", &x86_64::X86_64),
    ("arm64", &arm64::Arm64),
    ("s390x", &s390x::S390x),
    ("ppc64le", &ppc64::Ppc64(ByteOrder::Little)),
    ("ppc64", &ppc64::Ppc64(ByteOrder::Big)),
    ("riscv64", &riscv64::Riscv64),
    ("loongarch64", &loongarch64::Loongarch64),
];

/// The hardware of a machine, and how its kernel is configured for it.
#[derive(Debug, Clone, Copy)]
pub struct Platform {
    /// Name of the architecture in a text.
    pub name: &'static str,
    pub(crate) arch: &'static dyn Architecture,
    /// log2 of the kernel's page size.
    pub page_shift: u32,
    /// Bits of virtual addresses for which the kernel was built.
    pub bits: u32,
    /// Bits of virtual addresses that the hardware has; fewer than `bits` for a kernel of 52
    /// bits on an arm64 machine without them.
    pub hardware_bits: u32,
    /// True for the hash MMU of ppc64.
    pub hash: bool,
    /// memstart_addr of arm64; `None` for the kernel's choice without randomization.
    pub memstart: Option<i64>,
}

impl PartialEq for Platform {
    fn eq(&self, other: &Self) -> bool {
        let key = |of: &Self| {
            (
                of.name,
                of.page_shift,
                of.bits,
                of.hardware_bits,
                of.hash,
                of.memstart,
            )
        };
        key(self) == key(other)
    }
}

impl Eq for Platform {}

impl Default for Platform {
    fn default() -> Self {
        Self::new(ALL[0])
    }
}

impl Platform {
    fn new((name, arch): (&'static str, &'static dyn Architecture)) -> Self {
        let page_shift = arch.page_shifts()[0];
        let bits = arch.bits(page_shift).first().copied().unwrap_or(0);
        Self {
            name,
            arch,
            page_shift,
            bits,
            hardware_bits: bits,
            hash: false,
            memstart: None,
        }
    }

    /// Returns the defaults of the architecture with this name in a text.
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter()
            .find(|(other, _)| *other == name)
            .map(Self::new)
    }

    /// Returns the names of all architectures.
    pub fn names() -> Vec<&'static str> {
        ALL.iter().map(|(name, _)| *name).collect()
    }

    /// Parses `arch NAME [KEY=VALUE …]`.
    pub(crate) fn from_words(line: usize, words: &[&str]) -> Result<Self, SynthError> {
        let fail = |message: String| Err(SynthError::line(line, message));
        let (name, settings) = words.split_first().unwrap_or((&"", &[]));
        let Some(mut platform) = Self::named(name) else {
            return fail(format!(
                "unknown architecture `{name}`; there are {}",
                Self::names().join(", ")
            ));
        };
        let arch = platform.arch;
        let (mut bits, mut hardware) = (None, None);
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            match (key, value) {
                ("pages", _) => {
                    let shift = size_shift(value).filter(|it| arch.page_shifts().contains(it));
                    let Some(shift) = shift else {
                        return fail(format!("{name} has no pages of `{value}`"));
                    };
                    platform.page_shift = shift;
                }
                ("bits", _) => bits = value.parse().ok(),
                ("hardware_bits", _) => hardware = value.parse().ok(),
                ("memstart", _) => platform.memstart = Some(crate::text::signed(line, value)?),
                ("mmu", "radix") => platform.hash = false,
                ("mmu", "hash") => platform.hash = true,
                _ => return fail(format!("`{setting}` is not a setting of an architecture")),
            }
        }
        let all = arch.bits(platform.page_shift);
        platform.bits = bits.or(all.first().copied()).unwrap_or(0);
        platform.hardware_bits = hardware.unwrap_or(platform.bits);
        if bits.is_some() && !all.contains(&platform.bits) {
            return fail(format!("{name}: bits= wants one of {all:?}"));
        }
        arch.check_platform(&platform)
            .map_err(|message| SynthError::line(line, message))?;
        Ok(platform)
    }

    /// Returns the kernel's page size in bytes.
    pub fn page_size(&self) -> u64 {
        1 << self.page_shift
    }

    /// Returns the order of words in memory.
    pub fn order(&self) -> ByteOrder {
        self.arch.order()
    }

    /// Returns the name of the machine in utsname.
    pub fn machine(&self) -> &'static str {
        self.arch.machine()
    }

    /// Returns log2 of the size of a leaf, if the architecture has it.
    pub(crate) fn leaf_shift(&self, leaf: Leaf) -> Option<u32> {
        match leaf {
            Leaf::Small => Some(self.page_shift),
            _ => self.arch.leaf_shift(self, leaf),
        }
    }
}

/// Parses a size such as `4k` or `2m`; returns its log2.
pub(crate) fn size_shift(word: &str) -> Option<u32> {
    let lower = word.to_ascii_lowercase();
    let unit = match lower.chars().last()? {
        'k' => 10,
        'm' => 20,
        'g' => 30,
        't' => 40,
        _ => return None,
    };
    let number: u64 = lower[..lower.len() - 1].parse().ok()?;
    (number.is_power_of_two() && number < 1024).then(|| number.ilog2() + unit)
}

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

/// What a CPU's NT_PRSTATUS shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers {
    /// Program counter.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer, if the architecture unwinds by it.
    pub fp: u64,
    /// Link register: the return address, if the architecture has one.
    pub lr: u64,
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
