//! A built machine.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::SynthError;
use crate::frames::{Registers, Stack};
use crate::layout::{Layout, PAGE_STRUCT};
use crate::memory::Memory;
use crate::order::ByteOrder;
use crate::spec::{Run, Spec};
use crate::{vmcoreinfo, zones};

/// A built machine: its memory, and the addresses known from the build.
#[derive(Debug, Clone)]
pub struct Machine {
    pub(crate) spec: Spec,
    pub(crate) layout: Layout,
    pub(crate) memory: Memory,
    /// Page frame of each page of vmemmap, by the page's index in vmemmap.
    pub(crate) memmap: BTreeMap<u64, u64>,
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) stacks: Vec<Stack>,
    /// Lines that a test adds to VMCOREINFO.
    pub(crate) info: String,
}

/// Virtually and physically contiguous memory that the kernel can address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Virtual addresses.
    pub virt: Range<u64>,
    /// Physical address of the first one.
    pub paddr: u64,
}

impl Machine {
    /// Returns the VMCOREINFO text, even if the dump does not contain it.
    pub fn vmcoreinfo(&self) -> String {
        vmcoreinfo::text(&self.spec, &self.layout) + &self.info
    }

    /// Adds lines to VMCOREINFO in the notes, not to that in memory.
    pub fn add_info(&mut self, lines: &str) {
        self.info.push_str(lines);
    }

    /// Returns the specification from which the machine was built, with sorted runs.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns RAM as sorted ranges of page frames.
    pub fn ram(&self) -> &[Range<u64>] {
        self.memory.ram()
    }

    /// Returns the page frame after the highest one of RAM.
    pub fn max_pfn(&self) -> u64 {
        self.memory.max_pfn()
    }

    /// Returns the contents of a page frame; `None` if it is not RAM.
    pub fn page(&self, pfn: u64) -> Option<Vec<u8>> {
        self.memory.page(pfn)
    }

    /// Returns bytes of physical memory; `None` if they are not all in RAM.
    pub fn read(&self, paddr: u64, len: usize) -> Option<Vec<u8>> {
        self.memory.read(paddr, len)
    }

    /// Overwrites physical memory, for tests that damage it.
    ///
    /// # Errors
    /// If the bytes are not all in RAM.
    pub fn write(&mut self, paddr: u64, bytes: &[u8]) -> Result<(), SynthError> {
        self.memory.write(paddr, bytes)
    }

    /// Returns the run of the text that names a frame.
    pub fn run(&self, pfn: u64) -> Option<&Run> {
        run_of(&self.spec.runs, pfn)
    }

    /// Returns the addresses that an unwinder finds on the stack of a CPU, the innermost first;
    /// the first one is the program counter. Empty without the option `stack`.
    pub fn stack(&self, cpu: u32) -> &[u64] {
        self.stacks
            .get(cpu as usize)
            .map_or(&[], |stack| stack.calls.as_slice())
    }

    /// Returns the registers of a CPU as its note has them.
    pub fn registers(&self, cpu: u32) -> Registers {
        if let Some(stack) = self.stacks.get(cpu as usize) {
            return stack.registers;
        }
        let text = self.layout.image_virt;
        Registers {
            pc: text + 16 * u64::from(cpu),
            sp: self.layout.direct(self.layout.ram_base) + 0x1000,
            fp: 0,
            lr: text + 8,
        }
    }

    /// Returns the name of a frame's class; `None` if it is not RAM.
    pub fn class(&self, pfn: u64) -> Option<&'static str> {
        if !self.memory.is_ram(pfn) {
            return None;
        }
        Some(self.run(pfn).map_or("kernel", |run| run.class.name()))
    }

    /// Returns the physical address of a frame's struct page, if its section has a mem_map.
    pub fn struct_page(&self, pfn: u64) -> Option<u64> {
        let offset = pfn.checked_mul(PAGE_STRUCT)?;
        let page_size = self.page_size();
        let page = self.memmap.get(&(offset / page_size))?;
        Some(page * page_size + offset % page_size)
    }

    /// Returns the virtual address of a frame's struct page, as computed by the kernel.
    pub fn struct_page_vaddr(&self, pfn: u64) -> u64 {
        self.layout.struct_page(pfn)
    }

    /// Returns the physical address of the top-level page table.
    pub fn top_table(&self) -> u64 {
        self.layout.image_paddr(self.layout.swapper_pg_dir())
    }

    /// Returns the address of physical address 0 in the direct map, which is below its start if
    /// RAM begins later.
    pub fn page_offset(&self) -> u64 {
        self.layout.page_offset
    }

    /// Returns the kernel's page size in bytes.
    pub fn page_size(&self) -> u64 {
        self.layout.page_size
    }

    /// Returns the order of words in memory.
    pub fn order(&self) -> ByteOrder {
        self.layout.order
    }

    /// Returns the page frames that the builder filled, in order: the kernel's image, page tables,
    /// memory map, nodes and log, and what only an architecture or an option adds.
    pub fn built_frames(&self) -> impl Iterator<Item = u64> {
        self.memory.written_frames()
    }

    /// Returns the page frames of each node's `pglist_data`.
    pub fn node_frames(&self) -> Vec<Range<u64>> {
        let layout = &self.layout;
        let pages = self.spec.zones().pglist_size.div_ceil(layout.page_size);
        let slots = (0..zones::node_count(&self.spec))
            .map(|node| layout.image_paddr(layout.node_data()) + node * 8);
        let nodes = slots.filter_map(|slot| self.memory.read_u64(slot));
        let first = nodes.map(|node| layout.direct_paddr(node) / layout.page_size);
        first.map(|first| first..first + pages).collect()
    }

    /// Returns everything that the kernel can address: what page tables map, one item per leaf,
    /// and what the hardware maps without them.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// Returns the virtual and the physical range of the kernel's image.
    pub fn image(&self) -> (Range<u64>, Range<u64>) {
        let bytes = self.layout.image_frames * self.layout.page_size;
        let (virt, phys) = (self.layout.image_virt, self.layout.image_phys);
        (virt..virt + bytes, phys..phys + bytes)
    }

    /// Returns the physical address of the page with the VMCOREINFO text, if it exists.
    pub fn vmcoreinfo_page(&self) -> Option<u64> {
        self.layout.vmcoreinfo_page
    }

    /// Returns the number of page frames in free and unaccepted blocks: the sum of the zones'
    /// NR_FREE_PAGES, before `nr_free_skew`.
    pub fn free_frames(&self) -> u64 {
        (0..zones::node_count(&self.spec))
            .flat_map(|node| (0..3).map(move |zone| (node, zone)))
            .map(|(node, zone)| zones::free_frames(&self.spec, node, zone))
            .sum()
    }
}

/// Returns the run that contains a frame. `runs` is sorted.
pub(crate) fn run_of(runs: &[Run], pfn: u64) -> Option<&Run> {
    let after = runs.partition_point(|run| run.pfn <= pfn);
    let run = &runs[after.checked_sub(1)?];
    run.frames().contains(&pfn).then_some(run)
}
