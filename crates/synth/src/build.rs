//! Lays out a machine: page tables, mem_section, mem_map, zones, and the other tables.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::SynthError;
use crate::kernels::HeadLink;
use crate::layout::{IMAGE_FRAMES, KERNEL_IMAGE_SIZE, Layout, PHYSICAL_START, SECTION_FRAMES};
use crate::machine::Machine;
use crate::memory::{Frames, Memory, PAGE};
use crate::pages::{PAGE_STRUCT, PageWriter, Use};
use crate::paging::Tables;
use crate::spec::{Fill, Leaf, Spec};
use crate::{vmcoreinfo, zones};

const PAGE_BYTES: u64 = PAGE as u64;
/// Struct pages per page of vmemmap.
const STRUCTS: u64 = PAGE_BYTES / PAGE_STRUCT;

/// Builds the machine.
pub(crate) fn build(mut spec: Spec) -> Result<Machine, SynthError> {
    spec.runs.sort_by_key(|run| run.pfn);
    let memory = Memory::new(&spec.ram)?;
    check(&spec, &memory)?;
    let named: Vec<_> = spec.runs.iter().map(|run| run.frames()).collect();
    let frames = Frames::new(memory.ram(), &named);
    let mut builder = Builder {
        layout: Layout::new(&spec),
        spec: &spec,
        memory,
        frames,
        memmap: BTreeMap::new(),
    };
    builder.fill();
    let tables = builder.image()?;
    builder.direct_map(&tables)?;
    let sections = builder.memmap(&tables)?;
    builder.mem_section(&sections)?;
    zones::write(
        builder.spec,
        &builder.layout,
        &mut builder.memory,
        &mut builder.frames,
    )?;
    builder.struct_pages(&sections)?;
    builder.log()?;
    builder.symbols()?;
    let Builder {
        layout,
        memory,
        memmap,
        ..
    } = builder;
    Ok(Machine {
        spec,
        layout,
        memory,
        memmap,
    })
}

fn check(spec: &Spec, memory: &Memory) -> Result<(), SynthError> {
    spec.check_options(0)?;
    for run in &spec.runs {
        spec.check_run(run)?;
        let frames = run.frames();
        if let Some(pfn) = frames.clone().find(|pfn| !memory.is_ram(*pfn)) {
            return Err(SynthError::line(
                run.line,
                format!("page frame {pfn:#x} is not RAM"),
            ));
        }
        if let Fill::Same(other) = run.fill {
            let same = |run: &&crate::spec::Run| run.frames().contains(&other);
            let target = spec.runs.iter().find(same);
            if target.is_none_or(|target| matches!(target.fill, Fill::Same(_))) {
                return Err(SynthError::line(
                    run.line,
                    "fill=same: expected a named frame whose own fill is not `same`",
                ));
            }
        }
    }
    for pair in spec.runs.windows(2) {
        if pair[1].pfn < pair[0].frames().end {
            return Err(SynthError::line(
                pair[1].line,
                format!("page frame {:#x} is named twice", pair[1].pfn),
            ));
        }
    }
    if spec
        .nodes
        .windows(2)
        .any(|pair| pair[1].start < pair[0].end)
    {
        return Err(SynthError::layout("nodes overlap or are not in order"));
    }
    let limit = 1 << (Layout::new(spec).max_physmem_bits - 12);
    if memory.max_pfn() > limit {
        return Err(SynthError::layout("RAM above MAX_PHYSMEM_BITS"));
    }
    Ok(())
}

struct Builder<'a> {
    spec: &'a Spec,
    layout: Layout,
    memory: Memory,
    frames: Frames,
    /// Page frame of each page of vmemmap, by the page's index in vmemmap.
    memmap: BTreeMap<u64, u64>,
}

impl Builder<'_> {
    fn fill(&mut self) {
        for run in &self.spec.runs {
            for pfn in run.frames() {
                self.memory.set_fill(pfn, run.fill);
            }
        }
    }

    /// Allocates and maps the kernel's image.
    fn image(&mut self) -> Result<Tables, SynthError> {
        let options = &self.spec.options;
        let frames = IMAGE_FRAMES.max(options.image_leaf.frames());
        let shift = PHYSICAL_START + options.kaslr;
        if !options.kaslr.is_multiple_of(1 << 21) || shift + frames * PAGE_BYTES > KERNEL_IMAGE_SIZE
        {
            return Err(SynthError::layout(
                "kaslr=: expected a multiple of 2 MiB below 1 GiB - 16 MiB",
            ));
        }
        let align = options.image_leaf.frames();
        let pfn = match options.phys_base {
            None => self.frames.alloc(frames, align)?,
            Some(base) => {
                let paddr = shift.wrapping_add_signed(base);
                if !paddr.is_multiple_of(align * PAGE_BYTES) {
                    return Err(SynthError::layout("phys_base= is not aligned to a leaf"));
                }
                self.frames.alloc_at(paddr / PAGE_BYTES, frames)?
            }
        };
        self.layout.image_phys = pfn * PAGE_BYTES;
        self.layout.image_frames = frames;
        self.layout.phys_base = self.layout.image_phys.wrapping_sub(shift).cast_signed();
        let top = self.layout.image_paddr(self.layout.swapper_pg_dir()) / PAGE_BYTES;
        (pfn + 1..pfn + IMAGE_FRAMES).for_each(|pfn| self.memory.own(pfn));
        let tables = Tables {
            top,
            levels: options.levels,
            sme_mask: self.layout.sme_mask,
        };
        let image = self.layout.image_phys..self.layout.image_phys + frames * PAGE_BYTES;
        self.map(
            &tables,
            self.layout.image_virt,
            image,
            options.image_leaf,
            true,
        )?;
        Ok(tables)
    }

    fn map(
        &mut self,
        tables: &Tables,
        vaddr: u64,
        paddr: Range<u64>,
        leaf: Leaf,
        exec: bool,
    ) -> Result<(), SynthError> {
        for at in paddr.clone().step_by(leaf.frames() as usize * PAGE) {
            let vaddr = vaddr + (at - paddr.start);
            tables.map(&mut self.memory, &mut self.frames, vaddr, at, leaf, exec)?;
        }
        Ok(())
    }

    /// Maps all RAM. Large leaves are used where they cover only RAM, and small ones for the
    /// rest, as in init_memory_mapping(). Giant leaves are used wherever there is some RAM,
    /// because no small machine could fill one.
    fn direct_map(&mut self, tables: &Tables) -> Result<(), SynthError> {
        let direct = self.spec.options.direct;
        let step = direct.frames();
        let mut next = 0;
        for range in self.memory.ram().to_vec() {
            let mut pfn = range.start.max(next);
            while pfn < range.end {
                let base = pfn & !(step - 1);
                let whole = base >= range.start && base + step <= range.end;
                let (leaf, base) = match direct {
                    Leaf::Large if !whole => (Leaf::Small, pfn),
                    leaf => (leaf, base),
                };
                let paddr = base * PAGE_BYTES;
                let vaddr = self.layout.direct(paddr);
                let bytes = paddr..paddr + leaf.frames() * PAGE_BYTES;
                self.map(tables, vaddr, bytes, leaf, false)?;
                pfn = base + leaf.frames();
                next = pfn;
            }
        }
        Ok(())
    }

    /// Allocates the mem_map of every section that has RAM.
    fn memmap(&mut self, tables: &Tables) -> Result<Vec<u64>, SynthError> {
        let mut sections = Vec::new();
        for range in self.memory.ram() {
            sections.extend(range.start / SECTION_FRAMES..=(range.end - 1) / SECTION_FRAMES);
        }
        sections.dedup();
        let pages = SECTION_FRAMES / STRUCTS;
        for section in &sections {
            let first = section * pages;
            let vaddr = self.layout.vmemmap + first * PAGE_BYTES;
            if self.spec.options.vmemmap_leaf == Leaf::Large {
                // The mem_map of one section is exactly one large leaf.
                let pfn = self.frames.alloc(pages, pages)?;
                for index in 0..pages {
                    self.memory.own(pfn + index);
                    self.memmap.insert(first + index, pfn + index);
                }
                let bytes = pfn * PAGE_BYTES..(pfn + pages) * PAGE_BYTES;
                self.map(tables, vaddr, bytes, Leaf::Large, false)?;
                continue;
            }
            for index in first..first + pages {
                let pfn = match self.shared(index) {
                    Some(other) => self.memmap.get(&other).copied(),
                    None => None,
                };
                // From both ends alternately, so that nothing is contiguous.
                let pfn = match pfn {
                    Some(pfn) => pfn,
                    None if index % 2 == 0 => self.frames.alloc(1, 1)?,
                    None => self.frames.alloc_top()?,
                };
                self.memory.own(pfn);
                self.memmap.insert(index, pfn);
                let vaddr = self.layout.vmemmap + index * PAGE_BYTES;
                let bytes = pfn * PAGE_BYTES..(pfn + 1) * PAGE_BYTES;
                self.map(tables, vaddr, bytes, Leaf::Small, false)?;
            }
        }
        Ok(sections)
    }

    /// Returns the index of the earlier page of vmemmap that replaces this one, if the vmemmap
    /// of a hugetlb page is optimized. With pointers, the pages of all tails are the head's own
    /// page, and heads appear in the middle; with masks (7.1), they are one page of tails.
    fn shared(&self, index: u64) -> Option<u64> {
        let pfn = index * STRUCTS;
        let run = self.run_of(pfn).filter(|run| run.hvo)?;
        let first = run.head(pfn) / STRUCTS;
        let stands_in = match self.spec.head_link() {
            HeadLink::Pointer => first,
            HeadLink::InfoMask => first + 1,
        };
        (index > stands_in).then_some(stands_in)
    }

    fn run_of(&self, pfn: u64) -> Option<&crate::spec::Run> {
        crate::machine::run_of(&self.spec.runs, pfn)
    }

    /// SPARSEMEM_EXTREME: an array of pointers to pages of `struct mem_section`.
    fn mem_section(&mut self, sections: &[u64]) -> Result<(), SynthError> {
        let bytes = self.layout.section_roots() * 8;
        let count = bytes.div_ceil(PAGE_BYTES);
        let array = self.frames.alloc(count, 1)?;
        (array..array + count).for_each(|pfn| self.memory.own(pfn));
        self.layout.mem_section = self.layout.direct(array * PAGE_BYTES);
        // PRESENT, HAS_MEM_MAP and ONLINE; IS_EARLY came with 5.3 (326e1b8f83a4).
        let flags = if self.spec.kernel.since(5, 3) { 0xf } else { 7 };
        for section in sections {
            let slot = array * PAGE_BYTES + section / self.layout.sections_per_root() * 8;
            let root = match self.memory.read_u64(slot).unwrap_or(0) {
                0 => {
                    let page = self.frames.alloc(1, 1)?;
                    self.memory.own(page);
                    let paddr = page * PAGE_BYTES;
                    self.memory.write_u64(slot, self.layout.direct(paddr))?;
                    paddr
                }
                vaddr => vaddr - self.layout.page_offset,
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

    fn struct_pages(&mut self, sections: &[u64]) -> Result<(), SynthError> {
        let writer = PageWriter {
            spec: self.spec,
            vmemmap: self.layout.vmemmap,
            page_offset: self.layout.page_offset,
        };
        for section in sections {
            let first = section * SECTION_FRAMES;
            for start in (first..first + SECTION_FRAMES).step_by(STRUCTS as usize) {
                if self.shared(start / STRUCTS).is_some() {
                    continue;
                }
                let mut bytes = Vec::with_capacity(PAGE);
                for pfn in start..start + STRUCTS {
                    let used = match self.run_of(pfn) {
                        Some(run) => Use::Named(run),
                        None if self.memory.is_ram(pfn) => Use::Plain,
                        None => Use::Hole,
                    };
                    let node = zones::node_of(self.spec, pfn);
                    bytes.extend(writer.write(pfn, used, zones::zone_of(pfn), node));
                }
                if let Some(pfn) = self.memmap.get(&(start / STRUCTS)) {
                    self.memory.write(pfn * PAGE_BYTES, &bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the kernel log, in the direct map.
    fn log(&mut self) -> Result<(), SynthError> {
        let Some(log) = &self.spec.log else {
            return Ok(());
        };
        let pages = (log.image(0).bytes.len() as u64).div_ceil(PAGE_BYTES);
        let first = self.frames.alloc(pages, 1)?;
        (first..first + pages).for_each(|pfn| self.memory.own(pfn));
        self.layout.log = self.layout.direct(first * PAGE_BYTES);
        let bytes = log.image(self.layout.log).bytes;
        self.memory.write(first * PAGE_BYTES, &bytes)
    }

    /// Writes init_uts_ns, vmap_area_list and the page with VMCOREINFO.
    fn symbols(&mut self) -> Result<(), SynthError> {
        let layout = self.layout;
        let kernel = self.spec.kernel;
        let name = layout.image_paddr(layout.init_uts_ns()) + layout.uts_name_offset(kernel);
        let release = layout.release(kernel);
        let fields = [
            "Linux",
            "synth",
            &release,
            "#1 SMP synth",
            "x86_64",
            "(none)",
        ];
        // `struct new_utsname`: six fields of 65 bytes.
        for (index, field) in fields.iter().enumerate() {
            self.memory
                .write(name + index as u64 * 65, field.as_bytes())?;
        }
        let list = layout.vmap_area_list();
        for offset in [0, 8] {
            self.memory
                .write_u64(layout.image_paddr(list) + offset, list)?;
        }
        if self.spec.options.vmcoreinfo.in_page() {
            let page = self.frames.alloc(1, 1)?;
            self.memory.own(page);
            self.layout.vmcoreinfo_page = Some(page * PAGE_BYTES);
            let text = vmcoreinfo::text(self.spec, &self.layout);
            if text.len() > PAGE {
                return Err(SynthError::layout("VMCOREINFO is longer than a page"));
            }
            self.memory.write(page * PAGE_BYTES, text.as_bytes())?;
        }
        Ok(())
    }
}
