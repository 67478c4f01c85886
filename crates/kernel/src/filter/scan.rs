//! Scans struct pages, in runs as long as the memory map allows.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, PageFrameRange, VirtAddr};

use super::result::SectionResult;
use crate::error::KernelError;
use crate::kernel::Kernel;
use crate::mem_map::MemMap;
use crate::page::{
    BLOCK_PAGES, BlockClasses, BlockClassifier, ExcludedClasses, PageClass, PageLayout, Verdict,
};
use crate::source::PageReader;

use super::window::Window;

/// Maximum order of a head in an earlier section: 16 GiB of 4 KiB pages.
const MAX_HEAD_ORDER: u32 = 22;

/// The scan of one section's struct pages.
pub(super) struct Scan<'a, 's> {
    pub(super) kernel: &'a Kernel<'s>,
    pub(super) wanted: ExcludedClasses,
    pub(super) blocks: Option<&'a BlockClassifier>,
    pub(super) map: &'a MemMap,
    pub(super) layout: &'a PageLayout,
    pub(super) frames: PageFrameRange,
    pub(super) kept: &'a mut Bitmap,
    pub(super) result: SectionResult,
    pub(super) window: Window,
}

/// Contiguous struct pages.
struct Run<'b> {
    bytes: &'b [u8],
    /// The page frame of the first struct page.
    first: u64,
    /// The page frame after the last one to classify.
    end: u64,
    size: usize,
}

impl<'b> Run<'b> {
    /// Returns the struct page of `frame` and the following one (empty if not in this run).
    #[inline]
    fn pair(&self, frame: u64) -> (&'b [u8], &'b [u8]) {
        let at = (frame - self.first) as usize * self.size;
        let page = &self.bytes[at..at + self.size];
        let second = self.bytes.get(at + self.size..at + 2 * self.size);
        (page, second.unwrap_or(&[]))
    }

    /// Returns the struct pages from `frame` on.
    #[inline]
    fn from(&self, frame: u64) -> &'b [u8] {
        let at = frame
            .checked_sub(self.first)
            .map(|index| index as usize * self.size);
        at.and_then(|at| self.bytes.get(at..)).unwrap_or(&[])
    }
}

impl Scan<'_, '_> {
    /// Scans all memory sections of the range.
    pub(super) fn sections(&mut self, reader: &mut dyn PageReader) -> Result<(), KernelError> {
        let shift = self.map.frames_shift();
        let mut at = self.frames.start.0;
        let mut covered = self.covered_from_before()?;
        while at < self.frames.end.0 {
            let section = at >> shift;
            let end = ((section + 1) << shift).min(self.frames.end.0);
            let map = self.map.section(self.kernel, section);
            if let Some(map) = self.readable(map, end - at)?.flatten() {
                covered = self.section(reader, map, PageFrameRange::new(at, end), covered)?;
            }
            at = end;
        }
        Ok(())
    }

    /// Scans the struct pages of `frames`, which `map` locates. Returns the frame up to which
    /// the verdicts reach.
    fn section(
        &mut self,
        reader: &mut dyn PageReader,
        map: VirtAddr,
        frames: PageFrameRange,
        covered: u64,
    ) -> Result<u64, KernelError> {
        let size = self.map.page_struct_size();
        let page_shift = self.kernel.source().page_shift();
        let mut frame = frames.start.0.max(covered);
        while frame < frames.end.0 {
            let address = self.map.page_struct(map, PageFrame(frame));
            let rest = (1_u64 << page_shift) - (address.0 & ((1 << page_shift) - 1));
            let rest = rest.div_ceil(size);
            let leaf = self.kernel.translate(address).map_err(Into::into);
            let Some(leaf) = self.readable(leaf, rest)?.flatten() else {
                // A hole in the memory map: continue with its next page.
                frame += rest;
                continue;
            };
            let wanted = (frames.end.0 - frame) * size;
            let limit = self.window.bytes().max(1 << page_shift);
            let offset = leaf.physical.0 & ((1 << page_shift) - 1);
            let len = leaf.len.min(wanted).min(limit - offset);
            if len < size {
                // A struct page across the border of two mappings.
                let next = self.one_by_one(map, frame)?;
                frame = next.max(frame + 1);
                continue;
            }
            let first_page = leaf.physical.page_frame(page_shift);
            let pages = (offset + len).div_ceil(1 << page_shift) as usize;
            let bytes = match reader.pages(first_page, pages) {
                Ok(bytes) => bytes,
                Err(error) if error.is_one_page() => {
                    let lost = ((1_u64 << page_shift) - offset).div_ceil(size);
                    self.result.unreadable += lost.min(frames.end.0 - frame);
                    frame += lost;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let end = bytes.len().min((offset + len) as usize);
            let structs = end.saturating_sub(offset as usize) / size as usize;
            if structs == 0 {
                let next = self.one_by_one(map, frame)?;
                frame = next.max(frame + 1);
                continue;
            }
            // Start the run earlier in the page, so that blocks are complete.
            let before = (offset / size).min(frame - frames.start.0);
            let run = Run {
                bytes: &bytes[(offset - before * size) as usize..end],
                first: frame - before,
                end: (frame + structs as u64).min(frames.end.0),
                size: size as usize,
            };
            self.window.begin();
            let (next, cut) = self.run(&run, frame);
            self.window.end(next - frame);
            frame = if cut {
                self.one_by_one(map, next)?
            } else {
                next
            };
        }
        Ok(frame)
    }

    /// A damaged or lost part of the memory map keeps its `frames` pages: in doubt, keep. Only
    /// a source that fails as a whole is an error.
    fn readable<T>(
        &mut self,
        result: Result<T, KernelError>,
        frames: u64,
    ) -> Result<Option<T>, KernelError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(KernelError::Source(error)) if !error.is_one_page() => Err(error.into()),
            Err(_) => {
                self.result.unreadable += frames;
                Ok(None)
            }
        }
    }

    /// Classifies the frames of `run` from `frame` on. Returns the frame after the last one
    /// classified, and whether that one is the head of a compound page whose second struct page
    /// is not in `run`.
    fn run(&mut self, run: &Run, mut frame: u64) -> (u64, bool) {
        while frame < run.end {
            if let Some((first, classes)) = self.block_around(run, frame) {
                let (next, cut) = self.block(run, first, frame, classes);
                if cut {
                    return (next, true);
                }
                frame = next;
                continue;
            }
            let (page, second) = run.pair(frame);
            if second.is_empty() && self.layout.is_head(page) {
                return (frame, true);
            }
            let verdict = self.layout.classify(frame, page, second, self.wanted);
            frame = self.apply(frame, verdict);
        }
        (frame, false)
    }

    /// Returns the first frame of the block with `frame`, which is one word of the bitmap, and
    /// its classes; `None` if the block is not completely in `run`.
    #[inline]
    fn block_around(&self, run: &Run, frame: u64) -> Option<(u64, BlockClasses)> {
        let blocks = self.blocks?;
        let first = frame - (frame - self.frames.start.0) % BLOCK_PAGES as u64;
        if first + BLOCK_PAGES as u64 > run.end {
            return None;
        }
        Some((first, blocks.classify(run.from(first))?))
    }

    /// Classifies the frames from `frame` on of the block that starts at `first`; returns the
    /// same as [`Self::run`].
    fn block(&mut self, run: &Run, first: u64, frame: u64, classes: BlockClasses) -> (u64, bool) {
        let end = first + BLOCK_PAGES as u64;
        let mut undecided = u64::MAX << (frame - first);
        let mut special = classes.special & undecided;
        let (mut next, mut cut) = (end, false);
        while special != 0 {
            let bit = special.trailing_zeros();
            let head = first + u64::from(bit);
            let (page, second) = run.pair(head);
            let reach = if second.is_empty() && self.layout.is_head(page) {
                (next, cut) = (head, true);
                end
            } else {
                let verdict = self.layout.classify(head, page, second, self.wanted);
                let reach = verdict.end(head);
                if let Some(class) = verdict.class {
                    self.exclude(class, head, reach);
                }
                next = next.max(reach);
                reach
            };
            let behind = u32::try_from(reach - first).unwrap_or(u32::MAX);
            let behind = u64::MAX.checked_shl(behind).unwrap_or(0);
            special &= behind;
            undecided &= behind | !(u64::MAX << bit);
        }
        let index = (first - self.frames.start.0) as usize / BLOCK_PAGES;
        let alone = (classes.cache | classes.cache_private | classes.user) & undecided;
        if alone != 0 {
            let cleared = self.kept.clear_in_word(index, alone);
            let count = |class: u64| u64::from((cleared & class).count_ones());
            self.result.excluded.cache += count(classes.cache);
            self.result.excluded.cache_private += count(classes.cache_private);
            self.result.excluded.user += count(classes.user);
        }
        self.result.scanned += next.min(self.frames.end.0) - frame;
        self.window.leap(next.saturating_sub(end));
        (next, cut)
    }

    /// Reads and classifies one frame whose struct page crosses a border.
    fn one_by_one(&mut self, map: VirtAddr, frame: u64) -> Result<u64, KernelError> {
        let pair = self.read_pair(map, frame);
        let Some((page, second)) = self.readable(pair, 1)? else {
            return Ok(frame + 1);
        };
        let wanted = self.wanted;
        let verdict = self.layout.classify(frame, &page, &second, wanted);
        Ok(self.apply(frame, verdict))
    }

    fn apply(&mut self, frame: u64, verdict: Verdict) -> u64 {
        let end = verdict.end(frame);
        self.window.leap(end - frame - 1);
        if let Some(class) = verdict.class {
            self.exclude(class, frame, end);
        }
        self.result.scanned += end.min(self.frames.end.0) - frame.min(self.frames.end.0);
        end
    }

    fn exclude(&mut self, class: PageClass, start: u64, end: u64) {
        let base = self.frames.start.0;
        let (start, end) = (start.max(base), end.min(self.frames.end.0));
        if start >= end {
            return;
        }
        let bits = (start - base) as usize..(end - base) as usize;
        if class == PageClass::HwPoison {
            self.result.poison(start, end);
        }
        *self.result.excluded.of(class) += self.kept.clear_range(bits.start, bits.end);
    }

    /// A compound page or free block of an earlier section may reach into this one. Its head is
    /// at a multiple of its size, so there is one candidate per order. Returns the frame up to
    /// which it reaches.
    fn covered_from_before(&mut self) -> Result<u64, KernelError> {
        let start = self.frames.start.0;
        let mut tried = start;
        for order in 1..=MAX_HEAD_ORDER {
            let head = start >> order << order;
            if head == tried {
                continue;
            }
            tried = head;
            let section = head >> self.map.frames_shift();
            let map = self.map.section(self.kernel, section);
            let Some(map) = self.readable(map, 0)?.flatten() else {
                continue;
            };
            let pair = self.read_pair(map, head);
            let Some((page, second)) = self.readable(pair, 0)? else {
                continue;
            };
            let verdict = self.layout.classify(head, &page, &second, self.wanted);
            let end = head.saturating_add(1_u64.checked_shl(verdict.order).unwrap_or(0));
            if let Some(class) = verdict.class
                && end > start
            {
                self.exclude(class, start, end);
                return Ok(end);
            }
        }
        Ok(start)
    }

    /// Reads the struct page of `frame` and the following one (empty if unmapped).
    fn read_pair(&self, map: VirtAddr, frame: u64) -> Result<(Vec<u8>, Vec<u8>), KernelError> {
        let kernel = self.kernel;
        let mut page = vec![0; self.layout.size];
        kernel.read(
            "a struct page",
            self.map.page_struct(map, PageFrame(frame)),
            &mut page,
        )?;
        let mut second = vec![0; self.layout.size];
        let address = self.map.page_struct(map, PageFrame(frame + 1));
        if kernel.read("a struct page", address, &mut second).is_err() {
            second.clear();
        }
        Ok((page, second))
    }
}
