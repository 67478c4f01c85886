//! Locates struct pages.
//!
//! SPARSEMEM divides physical memory into sections. mem_section is a table of pointers to
//! tables of struct mem_section (SPARSEMEM_EXTREME), or a single table; each entry locates the
//! struct pages of its section, in an encoded form (sparse_encode_mem_map, mm/sparse.c).

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, VirtAddr};

use crate::error::KernelError;
use crate::kernel::Kernel;
use crate::source::SECTION_FRAMES;
use crate::steps::Steps;

/// SECTION_HAS_MEM_MAP (include/linux/mmzone.h).
const HAS_MEM_MAP: u64 = 1 << 1;
/// Flags of section_mem_map. Their number grew over time, but a mem_map is page-aligned and a
/// section's first struct page number is a multiple of a page, so all bits below 12 are flags.
const FLAGS: u64 = 0xfff;
/// Maximum number of sections, as a power of two: MAX_PHYSMEM_BITS 56 with SECTION_SIZE_BITS 27
/// (riscv64).
const MAX_SECTION_BITS: i64 = 29;

/// Minimum of SECTION_SIZE_BITS (arch/powerpc/include/asm/sparsemem.h).
const MIN_SECTION_BITS: i64 = 24;
/// Maximum number of sections, and of tables of sections, between the last RAM and the last
/// struct page. 2^52 bytes have 2^17 tables of 256 sections of 128 MiB. Beyond, the end of RAM is
/// taken.
const MAX_BEHIND: u64 = 1 << 18;

/// Locates the struct pages of a memory section.
#[derive(Clone, Debug)]
pub struct MemMap {
    /// Address of the table of tables, or of the table.
    root: VirtAddr,
    /// Entries of a second-level table; `None` with a single table.
    per_root: Option<u64>,
    section_count: u64,
    section_size: u64,
    map_offset: u64,
    page_struct_size: u64,
    frames_shift: u32,
}

impl MemMap {
    /// Finds mem_section and its layout.
    pub fn find(kernel: &Kernel) -> Result<Self, KernelError> {
        let info = kernel.info();
        let needed = |key: String| KernelError::missing(key, "find the struct pages");
        let size = |name: &str| {
            info.size(name)
                .filter(|size| (1..=4096).contains(size))
                .ok_or_else(|| needed(format!("SIZE({name})")))
        };
        let symbol = info
            .symbol("mem_section")
            .ok_or_else(|| needed("SYMBOL(mem_section)".into()))?;
        let shift = kernel.source().page_shift();
        let usual = (kernel.architecture().section_bits)(info);
        let section_bits = info.number("SECTION_SIZE_BITS").unwrap_or(usual.0);
        let physical_bits = info.number("MAX_PHYSMEM_BITS").unwrap_or(usual.1);
        let bits = physical_bits
            .checked_sub(section_bits)
            .filter(|bits| (0..=MAX_SECTION_BITS).contains(bits));
        let (Some(bits), true) = (
            bits,
            (MIN_SECTION_BITS.max(i64::from(shift))..48).contains(&section_bits),
        ) else {
            return Err(KernelError::Implausible {
                what: "SECTION_SIZE_BITS and MAX_PHYSMEM_BITS".into(),
                found: format!("{section_bits} and {physical_bits}"),
                expected: "sections of at least 2^24 bytes, and up to 2^29 of them",
            });
        };
        let section_size = size("mem_section")? as u64;
        let mut map = Self {
            root: symbol,
            per_root: None,
            section_count: 1 << bits,
            section_size,
            map_offset: info.offset("mem_section.section_mem_map").unwrap_or(0) as u64,
            page_struct_size: size("page")? as u64,
            frames_shift: section_bits as u32 - shift,
        };
        let roots = info.length("mem_section").unwrap_or(0) as u64;
        let per_root = (1_u64 << shift) / section_size;
        if roots > 0 && roots < map.section_count {
            map.per_root = Some(per_root);
        }
        map.settle_root(kernel)?;
        Ok(map)
    }

    /// Since 4.15 SYMBOL(mem_section) is the table's address (commit a0b1280368d1); before, and
    /// in some backports, it is the address of the pointer to it (commit 83e3c48729d9). The
    /// right interpretation leads to struct pages.
    fn settle_root(&mut self, kernel: &Kernel) -> Result<(), KernelError> {
        let symbol = self.root;
        if self.leads_to_struct_pages(kernel)? {
            return Ok(());
        }
        if let Ok(pointer) = kernel.read_u64("mem_section", symbol) {
            self.root = VirtAddr(pointer);
            if self.leads_to_struct_pages(kernel)? {
                return Ok(());
            }
        }
        Err(KernelError::Implausible {
            what: format!("mem_section at {symbol}"),
            found: "a table without struct pages for any RAM".into(),
            expected: "the struct pages of all sections with RAM",
        })
    }

    fn leads_to_struct_pages(&self, kernel: &Kernel) -> Result<bool, KernelError> {
        /// Memory that is not the kernel's, such as a ROM, has no struct pages.
        const MAX_TRIED: usize = 64;
        let mut ram = Bitmap::new(SECTION_FRAMES as usize);
        for first in kernel.source().sections().take(MAX_TRIED) {
            kernel.source().ram(first, &mut ram)?;
            let mut from = 0;
            while let Some((start, _)) = ram.next_run(from, ram.len(), 1) {
                let section = (first.0 + start as u64) >> self.frames_shift;
                match self.section(kernel, section) {
                    Ok(Some(map)) => {
                        let frame = PageFrame(section << self.frames_shift);
                        let address = self.page_struct(map, frame);
                        if kernel.translate(address)?.is_some() {
                            return Ok(true);
                        }
                    }
                    Ok(None) => {}
                    Err(KernelError::Source(error)) if !error.is_one_page() => {
                        return Err(error.into());
                    }
                    Err(_) => return Ok(false),
                }
                let behind = (section + 1) << self.frames_shift;
                from = behind.saturating_sub(first.0).min(SECTION_FRAMES) as usize;
            }
        }
        Ok(false)
    }

    /// Address and size of the table of tables; `None` with a single table, which is in the kernel
    /// image.
    pub fn table_of_tables(&self) -> Option<(VirtAddr, u64)> {
        let size = self.section_count.div_ceil(self.per_root?) * 8;
        Some((self.root, size))
    }

    /// Returns the address and the size of the table with the entry of `section`.
    pub fn table_with(
        &self,
        kernel: &Kernel,
        section: u64,
    ) -> Result<Option<(VirtAddr, u64)>, KernelError> {
        let size = self.per_root.unwrap_or(self.section_count) * self.section_size;
        let table = self.table(kernel, section)?;
        Ok(table.map(|(table, _)| (table, size)))
    }

    /// log2 of the number of page frames in a section.
    pub fn frames_shift(&self) -> u32 {
        self.frames_shift
    }

    /// Size of a struct page, in bytes.
    pub fn page_struct_size(&self) -> u64 {
        self.page_struct_size
    }

    /// Returns the decoded map of a section: the address that the struct page of page frame 0
    /// would have. `None` if the section has no struct pages.
    pub fn section(&self, kernel: &Kernel, section: u64) -> Result<Option<VirtAddr>, KernelError> {
        if section >= self.section_count {
            return Ok(None);
        }
        let Some((table, index)) = self.table(kernel, section)? else {
            return Ok(None);
        };
        let entry = table
            .checked_add(index * self.section_size)
            .and_then(|entry| entry.checked_add(self.map_offset));
        let map = kernel.read_u64("a mem_section", entry.ok_or_else(|| self.wraps())?)?;
        Ok((map & HAS_MEM_MAP != 0).then_some(VirtAddr(map & !FLAGS)))
    }

    /// Returns the table that has the section, and its index there; `None` if there is none.
    fn table(&self, kernel: &Kernel, section: u64) -> Result<Option<(VirtAddr, u64)>, KernelError> {
        let Some(per_root) = self.per_root else {
            return Ok(Some((self.root, section)));
        };
        let root = self.root.checked_add(section / per_root * 8);
        let root = root.ok_or_else(|| self.wraps())?;
        Ok(match kernel.read_u64("mem_section's root", root)? {
            0 => None,
            table => Some((VirtAddr(table), section % per_root)),
        })
    }

    /// Returns the page frame after the last section that has struct pages, and not beyond the
    /// RAM of the source. If it is too far below that to be searched for, returns the end of RAM.
    pub fn end_frame(&self, kernel: &Kernel) -> Result<PageFrame, KernelError> {
        let end = kernel.source().end_frame().0;
        let mut behind = end.div_ceil(1 << self.frames_shift).min(self.section_count);
        let steps = Steps::new(MAX_BEHIND);
        while let Some(section) = behind.checked_sub(1)
            && steps.take(1)
        {
            behind = match self.table(kernel, section)? {
                Some(_) if self.section(kernel, section)?.is_some() => {
                    return Ok(PageFrame((behind << self.frames_shift).min(end)));
                }
                Some(_) => section,
                None => self
                    .per_root
                    .map_or(section, |count| section / count * count),
            };
        }
        Ok(PageFrame(end))
    }

    /// The address of the struct page of `frame`, by its section's map.
    pub fn page_struct(&self, map: VirtAddr, frame: PageFrame) -> VirtAddr {
        VirtAddr(
            map.0
                .wrapping_add(frame.0.wrapping_mul(self.page_struct_size)),
        )
    }

    fn wraps(&self) -> KernelError {
        KernelError::Implausible {
            what: format!("mem_section at {}", self.root),
            found: "a table that goes beyond the end of memory".into(),
            expected: "an address in the kernel",
        }
    }
}
