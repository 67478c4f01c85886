//! mem_section and the struct pages.

use crate::arch::Block;
use crate::build::Builder;
use crate::error::SynthError;
use crate::kernels::HeadLink;
use crate::layout::PAGE_STRUCT;
use crate::pages::{PageWriter, Use};
use crate::paging::Tables;
use crate::spec::{Leaf, Run};
use crate::zones;

impl Builder<'_> {
    /// Struct pages per page of vmemmap.
    fn structs(&self) -> u64 {
        self.layout.page_size / PAGE_STRUCT
    }

    /// Allocates the mem_map of every section that has RAM. Returns the sections, and the blocks
    /// of memory that contain their mem_map.
    pub(crate) fn memmap(
        &mut self,
        tables: &mut Tables,
    ) -> Result<(Vec<u64>, Vec<Block>), SynthError> {
        let per_section = self.layout.section_frames();
        let mut sections = Vec::new();
        for range in self.memory.ram() {
            sections.extend(range.start / per_section..=(range.end - 1) / per_section);
        }
        sections.dedup();
        let arch = self.spec.platform.arch();
        let page_shift = self.spec.platform.page_shift;
        let leaf = self.spec.options.vmemmap_leaf;
        let block_shift = self.spec.platform.leaf_shift(leaf).unwrap_or(page_shift);
        let mut blocks = Vec::new();
        for section in &sections {
            if block_shift == page_shift && arch.vmemmap_in_tables(self.spec) {
                self.scattered(tables, *section, &mut blocks)?;
            } else {
                self.blocks(tables, *section, 1 << block_shift, &mut blocks)?;
            }
        }
        Ok((sections, blocks))
    }

    /// Allocates blocks as large as a leaf, which may contain the mem_map of several sections.
    fn blocks(
        &mut self,
        tables: &mut Tables,
        section: u64,
        size: u64,
        blocks: &mut Vec<Block>,
    ) -> Result<(), SynthError> {
        let page_size = self.layout.page_size;
        let pages = size / page_size;
        let start = self
            .layout
            .struct_page(section * self.layout.section_frames());
        let len = self.layout.section_frames() * PAGE_STRUCT;
        let first = start & !(size - 1);
        for vaddr in (first..start + len).step_by(size as usize) {
            // A block may begin before the struct page of frame 0.
            let index = vaddr.wrapping_sub(self.layout.vmemmap).cast_signed() / page_size as i64;
            let index = index.cast_unsigned();
            if self.memmap.contains_key(&index) {
                continue;
            }
            let pfn = self.frames.alloc(pages, pages)?;
            for page in 0..pages {
                self.memory.own(pfn + page);
                self.memmap.insert(index.wrapping_add(page), pfn + page);
            }
            let paddr = pfn * page_size;
            blocks.push((vaddr, paddr));
            if self.spec.platform.arch().vmemmap_in_tables(self.spec) {
                let leaf = self.spec.options.vmemmap_leaf;
                self.map(tables, vaddr, paddr..paddr + size, leaf, false)?;
            } else {
                self.mapped(vaddr, paddr, size);
            }
        }
        Ok(())
    }

    /// Allocates single pages, of which no two are contiguous.
    fn scattered(
        &mut self,
        tables: &mut Tables,
        section: u64,
        blocks: &mut Vec<Block>,
    ) -> Result<(), SynthError> {
        let page_size = self.layout.page_size;
        let frames = self.layout.section_frames();
        let (first, end) = (section * frames, (section + 1) * frames);
        for index in first / self.structs()..end.div_ceil(self.structs()) {
            if self.memmap.contains_key(&index) {
                continue;
            }
            let pfn = match self.shared(index) {
                Some(other) => self.memmap.get(&other).copied(),
                None => None,
            };
            // From both ends alternately.
            let pfn = match pfn {
                Some(pfn) => pfn,
                None if index % 2 == 0 => self.frames.alloc(1, 1)?,
                None => self.frames.alloc_top()?,
            };
            self.memory.own(pfn);
            self.memmap.insert(index, pfn);
            let vaddr = self.layout.vmemmap.wrapping_add(index * page_size);
            let bytes = pfn * page_size..(pfn + 1) * page_size;
            blocks.push((vaddr, bytes.start));
            self.map(tables, vaddr, bytes, Leaf::Small, false)?;
        }
        Ok(())
    }

    /// Returns the index of the earlier page of vmemmap that replaces this one, if the vmemmap
    /// of a hugetlb page is optimized. With pointers, the pages of all tails are the head's own
    /// page, and heads appear in the middle; with masks (7.1), they are one page of tails.
    fn shared(&self, index: u64) -> Option<u64> {
        let pfn = index * self.structs();
        let run = self.run_of(pfn).filter(|run| run.hvo)?;
        let first = run.head(pfn) / self.structs();
        let stands_in = match self.spec.head_link() {
            HeadLink::Pointer => first,
            HeadLink::InfoMask => first + 1,
        };
        (index > stands_in).then_some(stands_in)
    }

    fn run_of(&self, pfn: u64) -> Option<&Run> {
        crate::machine::run_of(&self.spec.runs, pfn)
    }

    /// SPARSEMEM_EXTREME: an array of pointers to pages of `struct mem_section`.
    pub(crate) fn mem_section(&mut self, sections: &[u64]) -> Result<(), SynthError> {
        let page_size = self.layout.page_size;
        let bytes = self.layout.section_roots() * 8;
        let count = bytes.div_ceil(page_size);
        let array = self.frames.alloc(count, 1)?;
        (array..array + count).for_each(|pfn| self.memory.own(pfn));
        self.layout.mem_section = self.layout.direct(array * page_size);
        // PRESENT, HAS_MEM_MAP and ONLINE; IS_EARLY came with 5.3 (326e1b8f83a4).
        let flags = if self.spec.kernel.since(5, 3) { 0xf } else { 7 };
        for section in sections {
            let slot = array * page_size + section / self.layout.sections_per_root() * 8;
            let root = match self.memory.read_u64(slot).unwrap_or(0) {
                0 => {
                    let page = self.frames.alloc(1, 1)?;
                    self.memory.own(page);
                    let paddr = page * page_size;
                    self.memory.write_u64(slot, self.layout.direct(paddr))?;
                    paddr
                }
                vaddr => self.layout.direct_paddr(vaddr),
            };
            let index = section % self.layout.sections_per_root();
            let entry = root + index * self.layout.mem_section_size;
            // The address of the section's map minus the offset of its first frame: vmemmap
            // itself.
            self.memory.write_u64(entry, self.layout.vmemmap | flags)?;
            self.memory
                .write_u64(entry + 8, self.layout.direct(root + 0x800))?;
        }
        Ok(())
    }

    pub(crate) fn struct_pages(&mut self, sections: &[u64]) -> Result<(), SynthError> {
        let spec = self.spec;
        let layout = self.layout.clone();
        let writer = PageWriter {
            spec,
            layout: &layout,
        };
        let frames = layout.section_frames();
        let step = self.structs().min(frames);
        for section in sections {
            let first = section * frames;
            for start in (first..first + frames).step_by(step as usize) {
                if self.shared(start / self.structs()).is_some() {
                    continue;
                }
                let mut bytes = Vec::with_capacity((step * PAGE_STRUCT) as usize);
                for pfn in start..start + step {
                    let used = match crate::machine::run_of(&spec.runs, pfn) {
                        Some(run) => Use::Named(run),
                        None if self.memory.is_ram(pfn) => Use::Plain,
                        None => Use::Hole,
                    };
                    let node = zones::node_of(spec, pfn);
                    bytes.extend(writer.write(pfn, used, zones::zone_of(spec, pfn), node));
                }
                if let Some(pfn) = self.memmap.get(&(start / self.structs())) {
                    let offset = start % self.structs() * PAGE_STRUCT;
                    self.memory.write(pfn * layout.page_size + offset, &bytes)?;
                }
            }
        }
        Ok(())
    }
}
