//! Pages of the memory map that describe excluded page frames only.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, PageFrameRange, VirtAddr};

use super::Filter;
use crate::arch::Leaf;
use crate::frame_set::FrameSet;
use crate::guard::GuardedUse;
use crate::kernel::Kernel;
use crate::mem_map::MemMap;
use crate::source::SECTION_FRAMES;

impl Filter<'_, '_> {
    /// Returns true if this filter knows where struct pages are, so that it can leave them out.
    pub fn has_struct_pages(&self) -> bool {
        self.struct_pages.is_some()
    }

    /// Returns the page frames of the memory map whose struct pages all belong to page frames of
    /// the section at `first` that are not in `kept`, its result.
    pub fn vacant_map(&self, first: PageFrame, kept: &Bitmap) -> FrameSet {
        let mut found = FrameSet::default();
        let (Some(kernel), Some((map, _))) = (self.kernel, &self.struct_pages) else {
            return found;
        };
        let (mut at, end) = (first.0, first.0 + SECTION_FRAMES);
        while at < end {
            let section = at >> map.frames_shift();
            let next = ((section + 1) << map.frames_shift()).min(end);
            // What cannot be read is not left out.
            if let Ok(Some(decoded)) = map.section(kernel, section) {
                let pages = MapPages { kernel, map, first };
                let frames = PageFrameRange::new(at, next);
                pages.vacant(decoded, frames, kept, &mut found);
            }
            at = next;
        }
        found
    }

    /// Lets all later scans exclude `vacant`, what [`Self::vacant_map`] found in all sections.
    pub fn leave_out(&self, mut vacant: FrameSet) {
        vacant.finish();
        let _ = self.vacant.set(vacant);
    }

    /// Excludes what [`Self::leave_out`] names, but no page frame that the kernel uses for anything
    /// else. Returns the number.
    pub(super) fn exclude_vacant(&self, first: PageFrame, kept: &mut Bitmap) -> u64 {
        let Some(vacant) = self.vacant.get().filter(|vacant| !vacant.is_empty()) else {
            return 0;
        };
        let mut bits = Bitmap::new(SECTION_FRAMES as usize);
        vacant.mark(first, &mut bits);
        self.exclude(first, bits, kept, |used_for| used_for != GuardedUse::MemMap)
    }
}

/// The pages that hold struct pages of a section.
struct MapPages<'a, 's> {
    kernel: &'a Kernel<'s>,
    map: &'a MemMap,
    /// The page frame of the first bit of the bitmap.
    first: PageFrame,
}

impl MapPages<'_, '_> {
    /// Adds to `found` the pages with struct pages of `frames`, which `decoded` locates, and of no
    /// page frame in `kept`. Pages that hold anything else as well are not added.
    fn vacant(
        &self,
        decoded: VirtAddr,
        frames: PageFrameRange,
        kept: &Bitmap,
        found: &mut FrameSet,
    ) {
        let shift = self.kernel.source().page_shift();
        let (page, size) = (1_u64 << shift, self.map.page_struct_size());
        let start = self.map.page_struct(decoded, frames.start).0;
        let bytes = (frames.end.0 - frames.start.0).saturating_mul(size);
        let Some(end) = start.checked_add(bytes) else {
            return;
        };
        let base = frames.start.0 - self.first.0;
        let mut mapping: Option<(u64, Leaf)> = None;
        let mut at = start.next_multiple_of(page);
        while at.checked_add(page).is_some_and(|behind| behind <= end) {
            let low = base + (at - start) / size;
            let high = base + (at + page - start).div_ceil(size);
            if kept.next_run(low as usize, high as usize, 1).is_none() {
                if mapping.is_none_or(|(from, leaf)| at - from >= leaf.len) {
                    mapping = self.translate(at).map(|leaf| (at, leaf));
                }
                if let Some((from, leaf)) = mapping
                    && (leaf.len > page || !self.is_shared(at, leaf))
                {
                    let frame = (leaf.physical.0 + (at - from)) >> shift;
                    found.add(PageFrame(frame), PageFrame(frame + 1));
                }
            }
            at += page;
        }
    }

    fn translate(&self, at: u64) -> Option<Leaf> {
        self.kernel.translate(VirtAddr(at)).ok().flatten()
    }

    /// Returns true if the page before or after `at` is the same page frame: of a large compound
    /// page, all struct pages of tails may be one page frame (CONFIG_HUGETLB_PAGE_OPTIMIZE_VMEMMAP,
    /// commit f41f2ed43ca5), which in later kernels is that of other compound pages as well.
    fn is_shared(&self, at: u64, leaf: Leaf) -> bool {
        let page = 1_u64 << self.kernel.source().page_shift();
        let is_same = |other: Option<u64>| {
            let other = other.and_then(|at| self.translate(at));
            other.is_some_and(|other| other.physical == leaf.physical)
        };
        is_same(at.checked_sub(page)) || is_same(at.checked_add(page))
    }
}
