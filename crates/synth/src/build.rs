//! Lays out a machine: page tables, mem_section, mem_map, zones, and the other tables.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::arch::Ground;
use crate::error::SynthError;
use crate::layout::Layout;
use crate::machine::{Machine, Mapping};
use crate::memory::{Frames, Memory};
use crate::paging::{Attributes, Leafs, Tables};
use crate::spec::{Fill, Leaf, Spec};
use crate::{stacks, vmcoreinfo, zones};

/// Offset of the builder's pages in vmalloc's area, after any image and its modules.
const VMALLOC_PAGES: u64 = 5 << 30;
/// Consecutive pages in vmalloc's area before a gap.
const VMALLOC_AREA: u64 = 4;
/// Larger leaves of the linear map are used wherever there is some RAM, because no small
/// machine could fill one.
const LARGEST_WHOLE_LEAF: u64 = 32 << 20;

/// Builds the machine.
pub(crate) fn build(mut spec: Spec) -> Result<Machine, SynthError> {
    spec.runs.sort_by_key(|run| run.pfn);
    let platform = spec.platform;
    let memory = Memory::new(&spec.ram, platform.page_size(), platform.order())?;
    check(&spec, &memory)?;
    let named: Vec<_> = spec.runs.iter().map(|run| run.frames()).collect();
    let mut frames = Frames::new(memory.ram(), &named);
    // Fixed addresses come before all others.
    let mut layout = Layout::new(&spec);
    let mut memory = memory;
    let mut ground = Ground {
        spec: &spec,
        layout: &mut layout,
        memory: &mut memory,
        frames: &mut frames,
    };
    let arch = platform.arch();
    arch.check_layout(&spec).map_err(SynthError::layout)?;
    arch.reserve(&mut ground)?;
    let mut builder = Builder {
        layout,
        spec: &spec,
        memory,
        frames,
        memmap: BTreeMap::new(),
        mappings: Vec::new(),
    };
    builder.fill();
    let mut tables = builder.image()?;
    builder.direct_map(&mut tables)?;
    let (sections, blocks) = builder.memmap(&mut tables)?;
    builder.mem_section(&sections)?;
    zones::write(
        builder.spec,
        &builder.layout,
        &mut builder.memory,
        &mut builder.frames,
    )?;
    builder.struct_pages(&sections)?;
    builder.log()?;
    builder.vmalloc(&mut tables)?;
    for mapping in platform.arch().extra(&mut builder.ground(), &blocks)? {
        let (vaddr, paddr) = (mapping.virt.start, mapping.paddr);
        let len = mapping.virt.end - vaddr;
        builder.map(&mut tables, vaddr, paddr..paddr + len, Leaf::Small, true)?;
    }
    let stacks = stacks::write(&mut builder.ground())?;
    builder.symbols()?;
    let Builder {
        layout,
        memory,
        memmap,
        mappings,
        ..
    } = builder;
    Ok(Machine {
        spec,
        layout,
        memory,
        memmap,
        mappings,
        stacks,
        info: String::new(),
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
    let layout = Layout::new(spec);
    let limit = (1 << layout.max_physmem_bits) / layout.page_size;
    if memory.max_pfn() > limit {
        return Err(SynthError::layout("RAM above MAX_PHYSMEM_BITS"));
    }
    Ok(())
}

pub(crate) struct Builder<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) layout: Layout,
    pub(crate) memory: Memory,
    pub(crate) frames: Frames,
    /// Page frame of each page of vmemmap, by the page's index in vmemmap.
    pub(crate) memmap: BTreeMap<u64, u64>,
    mappings: Vec<Mapping>,
}

impl Builder<'_> {
    fn ground(&mut self) -> Ground<'_> {
        Ground {
            spec: self.spec,
            layout: &mut self.layout,
            memory: &mut self.memory,
            frames: &mut self.frames,
        }
    }

    fn fill(&mut self) {
        for run in &self.spec.runs {
            for pfn in run.frames() {
                self.memory.set_fill(pfn, run.fill);
            }
        }
    }

    /// Allocates and maps the kernel's image.
    fn image(&mut self) -> Result<Tables, SynthError> {
        let spec = self.spec;
        let arch = spec.platform.arch();
        let page_size = self.layout.page_size;
        let areas = arch.areas(spec, self.layout.ram_base);
        let codec = arch.codec(spec, &self.layout);
        let top_bytes = codec.table_bytes(codec.levels().len() - 1);
        let leaf_frames = match areas.image_virt {
            Some(_) => self.leaf_frames(spec.options.image_leaf),
            None => 1,
        };
        let bytes = self.layout.place_top_table(top_bytes);
        let frames = (bytes / page_size).next_multiple_of(leaf_frames);
        let align = leaf_frames.max(top_bytes / page_size);
        let pfn = match areas.image_phys {
            None => self.frames.alloc(frames, align)?,
            Some(paddr) => {
                if !paddr.is_multiple_of(align * page_size) {
                    return Err(SynthError::layout("phys_base= is not aligned to a leaf"));
                }
                self.frames.alloc_at(paddr / page_size, frames)?
            }
        };
        let image = pfn * page_size..(pfn + frames) * page_size;
        self.layout.image_phys = image.start;
        self.layout.image_frames = frames;
        self.layout.image_virt = areas
            .image_virt
            .unwrap_or(self.layout.direct(self.layout.image_phys));
        // The first 4 KiB are the text; they are left to their fill unless the page has objects.
        let text = u64::from(page_size == 4096);
        (pfn + text..pfn + bytes / page_size).for_each(|pfn| self.memory.own(pfn));
        let top = self.layout.image_paddr(self.layout.swapper_pg_dir());
        let codec = arch.codec(spec, &self.layout);
        let mut tables = Tables::new(codec, top, page_size, &mut self.memory)?;
        if let Some(vaddr) = areas.image_virt {
            self.map(&mut tables, vaddr, image, spec.options.image_leaf, true)?;
        }
        Ok(tables)
    }

    /// Returns the number of page frames of a leaf.
    pub(crate) fn leaf_frames(&self, leaf: Leaf) -> u64 {
        let page_shift = self.spec.platform.page_shift;
        let shift = self.spec.platform.leaf_shift(leaf).unwrap_or(page_shift);
        1 << (shift - page_shift)
    }

    pub(crate) fn map(
        &mut self,
        tables: &mut Tables,
        vaddr: u64,
        paddr: Range<u64>,
        leaf: Leaf,
        exec: bool,
    ) -> Result<(), SynthError> {
        let size = self.leaf_frames(leaf) * self.layout.page_size;
        for at in paddr.clone().step_by(size as usize) {
            let leaf = Leafs {
                vaddr: vaddr.wrapping_add(at - paddr.start),
                paddr: at,
                shift: size.ilog2(),
                attributes: Attributes {
                    exec,
                    contiguous: leaf == Leaf::Contiguous,
                },
            };
            tables.map(&mut self.memory, &mut self.frames, leaf)?;
            self.mapped(leaf.vaddr, at, size);
        }
        Ok(())
    }

    /// Records what the kernel can address.
    pub(crate) fn mapped(&mut self, vaddr: u64, paddr: u64, len: u64) {
        self.mappings.push(Mapping {
            virt: vaddr..vaddr.wrapping_add(len),
            paddr,
        });
    }

    /// Maps all RAM. Large leaves are used where they cover only RAM, and small ones for the
    /// rest, as in init_memory_mapping().
    fn direct_map(&mut self, tables: &mut Tables) -> Result<(), SynthError> {
        let page_size = self.layout.page_size;
        let ram = self.memory.ram().to_vec();
        if !self.spec.platform.arch().linear_map_in_tables(self.spec) {
            for range in ram {
                let (start, end) = (range.start * page_size, range.end * page_size);
                self.mapped(self.layout.direct(start), start, end - start);
            }
            return Ok(());
        }
        let direct = self.spec.options.direct;
        let step = self.leaf_frames(direct);
        let everywhere = step * page_size > LARGEST_WHOLE_LEAF;
        let mut next = 0;
        for range in ram {
            let mut pfn = range.start.max(next);
            while pfn < range.end {
                let base = pfn & !(step - 1);
                let whole = base >= range.start && base + step <= range.end;
                let size = step * page_size;
                let aligned = self.layout.direct(base * page_size).is_multiple_of(size);
                let (leaf, base) = if aligned && (whole || everywhere) {
                    (direct, base)
                } else {
                    (Leaf::Small, pfn)
                };
                let paddr = base * page_size;
                let vaddr = self.layout.direct(paddr);
                let frames = self.leaf_frames(leaf);
                let bytes = paddr..paddr + frames * page_size;
                self.map(tables, vaddr, bytes, leaf, false)?;
                pfn = base + frames;
                next = pfn;
            }
        }
        Ok(())
    }

    /// Maps pages of unnamed RAM in vmalloc's area, a gap after every few of them.
    fn vmalloc(&mut self, tables: &mut Tables) -> Result<(), SynthError> {
        let page_size = self.layout.page_size;
        for index in 0..self.spec.options.vmalloc {
            let pfn = match index % 2 {
                0 => self.frames.alloc(1, 1)?,
                _ => self.frames.alloc_top()?,
            };
            let page = VMALLOC_PAGES / page_size + index + index / VMALLOC_AREA;
            let vaddr = self.layout.vmalloc.wrapping_add(page * page_size);
            let bytes = pfn * page_size..(pfn + 1) * page_size;
            self.map(tables, vaddr, bytes, Leaf::Small, false)?;
        }
        Ok(())
    }

    /// Writes the kernel log, in the direct map.
    fn log(&mut self) -> Result<(), SynthError> {
        let Some(log) = &self.spec.log else {
            return Ok(());
        };
        let len = log.image(0).bytes.len() as u64;
        let pages = len.div_ceil(self.layout.page_size);
        let paddr = self.ground().pages(pages)?;
        self.layout.log = self.layout.direct(paddr);
        let bytes = log.image_in(self.layout.log, self.layout.order).bytes;
        self.memory.write(paddr, &bytes)
    }

    /// Writes init_uts_ns, vmap_area_list and the page with VMCOREINFO.
    fn symbols(&mut self) -> Result<(), SynthError> {
        let layout = self.layout.clone();
        let kernel = self.spec.kernel;
        let name = layout.image_paddr(layout.init_uts_ns()) + layout.uts_name_offset(kernel);
        let release = layout.release(kernel);
        let fields = [
            "Linux",
            "synth",
            &release,
            "#1 SMP synth",
            self.spec.platform.machine(),
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
            let page = self.ground().pages(1)?;
            self.layout.vmcoreinfo_page = Some(page);
            let text = vmcoreinfo::text(self.spec, &self.layout);
            if text.len() > 4096 {
                return Err(SynthError::layout("VMCOREINFO is longer than a page"));
            }
            self.memory.write(page, text.as_bytes())?;
            let arch = self.spec.platform.arch();
            arch.publish(&mut self.ground(), &text)?;
        }
        Ok(())
    }
}
