//! What the kernel's page tables say about page frames.

use bigiron_format::{PhysAddr, VirtAddr};

use super::set::{GuardedFrames, GuardedUse};
use crate::arch::SeeTables;

/// The first and the last address of an area.
pub(super) type Area = (u64, u64);

/// The areas of the kernel's virtual addresses.
pub(super) struct Areas<'a> {
    /// The image, whose frames are added by its symbols.
    pub(super) image: Option<Area>,
    /// Where the image may be.
    pub(super) image_area: Option<Area>,
    /// Modules; without, everything that is outside of the direct mapping is taken for modules.
    pub(super) modules: Option<Area>,
    /// Struct pages, sorted: the first address and the one behind the last.
    pub(super) mem_map: &'a [(u64, u64)],
    /// The direct mapping.
    pub(super) direct: Option<Area>,
}

fn holds(area: Option<Area>, address: u64) -> bool {
    area.is_some_and(|(first, last)| (first..=last).contains(&address))
}

fn overlaps(area: Option<Area>, (first, last): Area) -> bool {
    area.is_some_and(|area| area.0 <= last && first <= area.1)
}

impl Areas<'_> {
    /// The parts of `first..=last` that have struct pages.
    fn struct_pages(&self, (first, last): Area) -> impl Iterator<Item = (u64, u64)> {
        let from = self.mem_map.partition_point(|part| part.1 <= first);
        let parts = self.mem_map.get(from..).unwrap_or_default().iter();
        parts
            .take_while(move |part| part.0 <= last)
            .map(move |part| (part.0.max(first), part.1.min(last.saturating_add(1))))
    }
}

/// Guards page tables, and what they map.
pub(super) struct Mapped<'a> {
    areas: Areas<'a>,
    page_shift: u32,
    /// Number of pages of a kernel stack.
    stack_pages: u64,
    run: VmallocRun,
    found: &'a mut GuardedFrames,
}

/// Pages that follow each other in vmalloc's area.
#[derive(Default)]
struct VmallocRun {
    start: u64,
    pages: u64,
    /// The physical addresses of the first ones.
    frames: Vec<u64>,
}

impl<'a> Mapped<'a> {
    /// Guards page frames of an architecture's `areas` in `found`, where a stack has `stack` bytes.
    pub(super) fn new(
        areas: Areas<'a>,
        stack: u64,
        page_shift: u32,
        found: &'a mut GuardedFrames,
    ) -> Self {
        Self {
            areas,
            page_shift,
            stack_pages: stack >> page_shift,
            run: VmallocRun::default(),
            found,
        }
    }

    /// Ends the visit.
    pub(super) fn end(mut self) {
        self.end_run();
    }

    /// Stacks are areas of their own in vmalloc's area, with holes around them (alloc_thread_stack_node,
    /// kernel/fork.c; CONFIG_VMAP_STACK), and so are the stacks of interrupts.
    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        let size = self.stack_pages << self.page_shift;
        if run.pages == self.stack_pages && size > 0 && run.start & (size - 1) == 0 {
            for frame in run.frames {
                self.found
                    .add(GuardedUse::Stacks, frame, 1, self.page_shift);
            }
        }
    }

    fn vmalloc(&mut self, virt: u64, at: u64, size: u64) {
        let next = self.run.start + (self.run.pages << self.page_shift);
        if virt != next {
            self.end_run();
            self.run.start = virt;
        }
        self.run.pages += size >> self.page_shift;
        if self.run.pages <= self.stack_pages && size == 1 << self.page_shift {
            self.run.frames.push(at);
        }
    }
}

impl SeeTables for Mapped<'_> {
    fn table(&mut self, at: PhysAddr, size: u64) {
        self.found
            .add(GuardedUse::PageTables, at.0, size, self.page_shift);
    }

    fn wants(&self, addresses: Area) -> bool {
        let areas = &self.areas;
        let is_direct = match areas.direct {
            Some((first, last)) => first <= addresses.0 && addresses.1 <= last,
            // Then only what has addresses of its own is found.
            None => true,
        };
        !is_direct
            || overlaps(areas.modules, addresses)
            || overlaps(areas.image_area, addresses)
            || areas.struct_pages(addresses).next().is_some()
    }

    fn mapping(&mut self, virt: VirtAddr, at: PhysAddr, size: u64) {
        let (virt, at) = (virt.0, at.0);
        let last = virt.saturating_add(size - 1);
        let mut is_map = false;
        for (start, end) in self.areas.struct_pages((virt, last)) {
            is_map = true;
            let at = at.saturating_add(start - virt);
            self.found
                .add(GuardedUse::MemMap, at, end - start, self.page_shift);
        }
        let areas = &self.areas;
        let used_for = if is_map || holds(areas.image, virt) {
            return;
        } else if holds(areas.image_area, virt) {
            GuardedUse::ImageMapping
        } else if holds(areas.modules, virt) {
            GuardedUse::Modules
        } else if areas.direct.is_none() || holds(areas.direct, virt) {
            return;
        } else if areas.modules.is_none() {
            self.vmalloc(virt, at, size);
            GuardedUse::Modules
        } else {
            self.vmalloc(virt, at, size);
            return;
        };
        self.found.add(used_for, at, size, self.page_shift);
    }
}
