//! A machine that was built.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::SynthError;
use crate::layout::Layout;
use crate::memory::{Memory, PAGE};
use crate::pages::PAGE_STRUCT;
use crate::spec::{Run, Spec};
use crate::{vmcoreinfo, zones};

/// A built machine: its memory, and what is known of it without looking there.
#[derive(Debug, Clone)]
pub struct Machine {
    pub(crate) spec: Spec,
    pub(crate) layout: Layout,
    pub(crate) memory: Memory,
    /// Page frame of each page of vmemmap, by its number within vmemmap.
    pub(crate) memmap: BTreeMap<u64, u64>,
}

impl Machine {
    /// The VMCOREINFO text, whether or not the dump has it.
    pub fn vmcoreinfo(&self) -> String {
        vmcoreinfo::text(&self.spec, &self.layout)
    }

    /// The specification the machine was built from, its runs sorted.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// RAM as sorted ranges of page frames.
    pub fn ram(&self) -> &[Range<u64>] {
        self.memory.ram()
    }

    /// One above the highest page frame of RAM.
    pub fn max_pfn(&self) -> u64 {
        self.memory.max_pfn()
    }

    /// Contents of a page frame, or nothing where there is no RAM.
    pub fn page(&self, pfn: u64) -> Option<[u8; PAGE]> {
        self.memory.page(pfn)
    }

    /// Bytes of physical memory, or nothing if they are not all RAM.
    pub fn read(&self, paddr: u64, len: usize) -> Option<Vec<u8>> {
        self.memory.read(paddr, len)
    }

    /// Overwrites physical memory, for tests that damage it.
    ///
    /// # Errors
    /// When the bytes are not all in RAM.
    pub fn write(&mut self, paddr: u64, bytes: &[u8]) -> Result<(), SynthError> {
        self.memory.write(paddr, bytes)
    }

    /// The run of the text that names a frame.
    pub fn run(&self, pfn: u64) -> Option<&Run> {
        run_of(&self.spec.runs, pfn)
    }

    /// Name of a frame's class, or nothing where there is no RAM.
    pub fn class(&self, pfn: u64) -> Option<&'static str> {
        if !self.memory.is_ram(pfn) {
            return None;
        }
        Some(self.run(pfn).map_or("kernel", |run| run.class.name()))
    }

    /// Physical address of a frame's struct page, if its section has a mem_map.
    pub fn struct_page(&self, pfn: u64) -> Option<u64> {
        let offset = pfn.checked_mul(PAGE_STRUCT)?;
        let page = self.memmap.get(&(offset / PAGE as u64))?;
        Some(page * PAGE as u64 + offset % PAGE as u64)
    }

    /// Virtual address of a frame's struct page, as the kernel would compute it.
    pub fn struct_page_vaddr(&self, pfn: u64) -> u64 {
        self.layout.vmemmap + pfn * PAGE_STRUCT
    }

    /// Physical address of the top page table.
    pub fn top_table(&self) -> u64 {
        self.layout.image_paddr(self.layout.swapper_pg_dir())
    }

    /// Where the direct map begins.
    pub fn page_offset(&self) -> u64 {
        self.layout.page_offset
    }

    /// Virtual and physical range of the kernel's image.
    pub fn image(&self) -> (Range<u64>, Range<u64>) {
        let bytes = self.layout.image_frames * PAGE as u64;
        let (virt, phys) = (self.layout.image_virt, self.layout.image_phys);
        (virt..virt + bytes, phys..phys + bytes)
    }

    /// Physical address of the page with the VMCOREINFO text, if there is one.
    pub fn vmcoreinfo_page(&self) -> Option<u64> {
        self.layout.vmcoreinfo_page
    }

    /// Page frames in free and unaccepted blocks: what the zones should tell in
    /// NR_FREE_PAGES, before `nr_free_skew`.
    pub fn free_frames(&self) -> u64 {
        (0..zones::node_count(&self.spec))
            .flat_map(|node| (0..3).map(move |zone| (node, zone)))
            .map(|(node, zone)| zones::free_frames(&self.spec, node, zone))
            .sum()
    }
}

/// The run that holds a frame; `runs` is sorted.
pub(crate) fn run_of(runs: &[Run], pfn: u64) -> Option<&Run> {
    let after = runs.partition_point(|run| run.pfn <= pfn);
    let run = &runs[after.checked_sub(1)?];
    run.frames().contains(&pfn).then_some(run)
}
