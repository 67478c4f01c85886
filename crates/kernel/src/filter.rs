//! Decides, chunk by chunk, which page frames a dump level keeps.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, PageFrameRange, VirtAddr};

use crate::error::{KernelError, SourceError};
use crate::kernel::Kernel;
use crate::mem_map::MemMap;
use crate::page::{PageClass, PageLayout, Verdict, Wanted};
use crate::source::{CHUNK_FRAMES, PageReader};

/// Pages of struct pages read at once.
const PAGES_AT_ONCE: usize = 512;
/// The largest order a head in an earlier chunk can have: 16 GiB of 4 KiB pages.
const MAX_HEAD_ORDER: u32 = 22;

/// What is left out, a sum of bits: 1 zero pages, 2 page cache without private
/// data, 4 all page cache, 8 user memory, 16 free memory (makedumpfile(8), -d).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpLevel(u8);

impl DumpLevel {
    /// Leaves out all that can be.
    pub const MAX: Self = Self(31);

    /// A level; `None` above 31.
    pub fn new(level: u8) -> Option<Self> {
        (level <= Self::MAX.0).then_some(Self(level))
    }

    /// The number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Whether pages of zeros are left out.
    pub fn excludes_zero(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether it cannot do without struct pages.
    pub fn needs_struct_pages(self) -> bool {
        self.0 & !1 != 0
    }

    /// Whether free pages are left out.
    pub fn excludes_free(self) -> bool {
        self.0 & 16 != 0
    }

    fn wanted(self) -> Wanted {
        Wanted {
            cache: self.0 & 2 != 0,
            cache_private: self.0 & 4 != 0,
            user: self.0 & 8 != 0,
            free: self.0 & 16 != 0,
        }
    }
}

/// Page frames left out, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExcludedCounts {
    /// Page cache without private data.
    pub cache: u64,
    /// Page cache with private data.
    pub cache_private: u64,
    /// User memory.
    pub user: u64,
    /// Free memory.
    pub free: u64,
    /// Memory that a confidential guest has not accepted.
    pub unaccepted: u64,
    /// Broken memory.
    pub hw_poison: u64,
    /// Memory taken away.
    pub offline: u64,
    /// RAM whose bytes the source does not have: filtered before, or lost.
    pub absent: u64,
    /// Memory behind the last struct page: of devices, not of the kernel.
    pub device: u64,
}

impl ExcludedCounts {
    /// Adds the counts of another chunk.
    pub fn add(&mut self, other: &Self) {
        self.cache += other.cache;
        self.cache_private += other.cache_private;
        self.user += other.user;
        self.free += other.free;
        self.unaccepted += other.unaccepted;
        self.hw_poison += other.hw_poison;
        self.offline += other.offline;
        self.absent += other.absent;
        self.device += other.device;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        let known = self.cache + self.cache_private + self.user + self.free;
        known + self.unaccepted + self.hw_poison + self.offline + self.absent + self.device
    }

    fn of(&mut self, class: PageClass) -> &mut u64 {
        match class {
            PageClass::Cache => &mut self.cache,
            PageClass::CachePrivate => &mut self.cache_private,
            PageClass::User => &mut self.user,
            PageClass::Free => &mut self.free,
            PageClass::Unaccepted => &mut self.unaccepted,
            PageClass::HwPoison => &mut self.hw_poison,
            PageClass::Offline => &mut self.offline,
        }
    }
}

/// What came out for one chunk.
#[derive(Clone, Debug, Default)]
pub struct ChunkResult {
    /// Page frames of RAM in the chunk.
    pub ram: u64,
    /// Page frames kept.
    pub kept: u64,
    /// Struct pages looked at or covered by one that was.
    pub scanned: u64,
    /// Page frames left out.
    pub excluded: ExcludedCounts,
    /// Frames of broken memory, which must not even be read.
    pub poisoned: Vec<PageFrame>,
    /// Struct pages that could not be read; their frames are kept.
    pub unreadable: u64,
}

/// Decides which page frames are kept.
pub struct Filter<'a, 's> {
    kernel: &'a Kernel<'s>,
    wanted: Wanted,
    struct_pages: Option<(MemMap, PageLayout)>,
    blind: Option<KernelError>,
    end: PageFrame,
}

impl<'a, 's> Filter<'a, 's> {
    /// A filter for `level`. Levels 0 and 1 look at struct pages only for
    /// poisoned and offline memory, where the kernel knows poisoned pages at
    /// all (as makedumpfile does), and work without struct pages too.
    pub fn new(kernel: &'a Kernel<'s>, level: DumpLevel) -> Result<Self, KernelError> {
        let find = || -> Result<_, KernelError> {
            let layout = PageLayout::new(kernel.info(), kernel.source().endian())?;
            Ok((MemMap::find(kernel)?, layout))
        };
        let knows_poison = kernel.info().number("PG_hwpoison").is_some();
        let (struct_pages, blind) = match (level.needs_struct_pages(), knows_poison) {
            (true, _) => (Some(find()?), None),
            (false, true) => match find() {
                Ok(found) => (Some(found), None),
                Err(error) => (None, Some(error)),
            },
            (false, false) => (None, None),
        };
        Ok(Self {
            kernel,
            wanted: level.wanted(),
            struct_pages,
            blind,
            end: kernel.source().end_frame(),
        })
    }

    /// Leaves out what lies behind the last struct page, such as video memory
    /// in QEMU's dumps, as makedumpfile does in kdump-compressed files. Where
    /// struct pages cannot be found, nothing is left out.
    pub fn end_at_mem_map(&mut self) -> Result<(), KernelError> {
        let found = match &self.struct_pages {
            Some((map, _)) => map.end_frame(self.kernel)?,
            None => match MemMap::find(self.kernel) {
                Ok(map) => map.end_frame(self.kernel)?,
                Err(_) => return Ok(()),
            },
        };
        self.end = self.end.min(found);
        Ok(())
    }

    /// The page frame behind the last that may be kept.
    pub fn end_frame(&self) -> PageFrame {
        self.end
    }

    /// Why poisoned pages cannot be told from others, if they cannot.
    pub fn blind(&self) -> Option<&KernelError> {
        self.blind.as_ref()
    }

    /// Decides about the chunk that begins with `first`. `ram` gets the frames
    /// that are RAM, `kept` those to dump.
    pub fn chunk(
        &self,
        reader: &mut dyn PageReader,
        first: PageFrame,
        ram: &mut Bitmap,
        kept: &mut Bitmap,
    ) -> Result<ChunkResult, KernelError> {
        let source = self.kernel.source();
        source.ram(first, ram)?;
        let end = self.end.0.saturating_sub(first.0).min(CHUNK_FRAMES) as usize;
        let device = ram.clear_range(end, CHUNK_FRAMES as usize);
        source.present(first, kept)?;
        kept.and(ram);
        let mut result = ChunkResult {
            ram: ram.count() + device,
            ..Default::default()
        };
        result.excluded.device = device;
        result.excluded.absent = ram.count() - kept.count();
        if let Some((map, layout)) = &self.struct_pages {
            let chunk = PageFrameRange::new(first.0, first.0 + CHUNK_FRAMES);
            let mut scan = Scan {
                filter: self,
                map,
                layout,
                chunk,
                kept,
                result,
            };
            scan.sections(reader)?;
            result = scan.result;
        }
        result.kept = kept.count();
        Ok(result)
    }
}

/// The scan of one chunk's struct pages.
struct Scan<'a, 's> {
    filter: &'a Filter<'a, 's>,
    map: &'a MemMap,
    layout: &'a PageLayout,
    chunk: PageFrameRange,
    kept: &'a mut Bitmap,
    result: ChunkResult,
}

impl Scan<'_, '_> {
    fn sections(&mut self, reader: &mut dyn PageReader) -> Result<(), KernelError> {
        let shift = self.map.frames_shift();
        let mut at = self.chunk.start.0;
        let mut covered = self.covered_from_before()?;
        while at < self.chunk.end.0 {
            let section = at >> shift;
            let end = ((section + 1) << shift).min(self.chunk.end.0);
            if let Some(map) = self.map.section(self.filter.kernel, section)? {
                covered = self.section(reader, map, PageFrameRange::new(at, end), covered)?;
            }
            at = end;
        }
        Ok(())
    }

    /// Goes through the struct pages of `frames`, which `map` leads to. Gives
    /// the frame up to which a verdict reaches.
    fn section(
        &mut self,
        reader: &mut dyn PageReader,
        map: VirtAddr,
        frames: PageFrameRange,
        covered: u64,
    ) -> Result<u64, KernelError> {
        let size = self.map.page_struct_size();
        let page_shift = self.filter.kernel.source().page_shift();
        let mut frame = frames.start.0.max(covered);
        while frame < frames.end.0 {
            let address = self.map.page_struct(map, PageFrame(frame));
            let Some(leaf) = self.filter.kernel.translate(address)? else {
                // A hole in the memory map: go on with the next page of it.
                let rest = (1_u64 << page_shift) - (address.0 & ((1 << page_shift) - 1));
                frame += rest.div_ceil(size).max(1);
                continue;
            };
            let wanted = (frames.end.0 - frame) * size;
            let limit = (PAGES_AT_ONCE as u64) << page_shift;
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
            let structs = &bytes[offset as usize..end];
            if structs.len() < size as usize {
                let next = self.one_by_one(map, frame)?;
                frame = next.max(frame + 1);
                continue;
            }
            frame = self.structs(structs, frame, frames.end.0);
        }
        Ok(frame)
    }

    /// Goes through struct pages that lie one behind the other; gives the
    /// frame behind the last one decided.
    fn structs(&mut self, bytes: &[u8], first: u64, end: u64) -> u64 {
        let size = self.layout.size;
        let last = (first + (bytes.len() / size) as u64).min(end);
        let mut frame = first;
        while frame < last {
            let at = (frame - first) as usize * size;
            let page = &bytes[at..at + size];
            let second = bytes.get(at + size..at + 2 * size).unwrap_or(&[]);
            let verdict = self
                .layout
                .classify(frame, page, second, self.filter.wanted);
            frame = self.apply(frame, verdict);
        }
        frame
    }

    /// Reads and decides one frame whose struct page lies across a border.
    fn one_by_one(&mut self, map: VirtAddr, frame: u64) -> Result<u64, KernelError> {
        match self.read_pair(map, frame) {
            Ok((page, second)) => {
                let verdict = self
                    .layout
                    .classify(frame, &page, &second, self.filter.wanted);
                Ok(self.apply(frame, verdict))
            }
            Err(KernelError::Source(error)) if !error.is_one_page() => Err(error.into()),
            Err(_) => {
                self.result.unreadable += 1;
                Ok(frame + 1)
            }
        }
    }

    fn apply(&mut self, frame: u64, verdict: Verdict) -> u64 {
        let end = frame.saturating_add(1_u64.checked_shl(verdict.order).unwrap_or(u64::MAX));
        if let Some(class) = verdict.class {
            self.exclude(class, frame, end);
        }
        self.result.scanned += end.min(self.chunk.end.0) - frame.min(self.chunk.end.0);
        end
    }

    fn exclude(&mut self, class: PageClass, start: u64, end: u64) {
        let base = self.chunk.start.0;
        let (start, end) = (start.max(base), end.min(self.chunk.end.0));
        if start >= end {
            return;
        }
        let bits = (start - base) as usize..(end - base) as usize;
        if class == PageClass::HwPoison {
            self.result.poisoned.extend((start..end).map(PageFrame));
        }
        *self.result.excluded.of(class) += self.kept.clear_range(bits.start, bits.end);
    }

    /// A compound page or free block may begin in an earlier chunk and reach
    /// into this one. Its head is at a multiple of its size, so there is one
    /// candidate for each order. Gives the frame up to which it reaches.
    fn covered_from_before(&mut self) -> Result<u64, KernelError> {
        let start = self.chunk.start.0;
        let mut tried = start;
        for order in 1..=MAX_HEAD_ORDER {
            let head = start >> order << order;
            if head == tried {
                continue;
            }
            tried = head;
            let section = head >> self.map.frames_shift();
            let Some(map) = self.map.section(self.filter.kernel, section)? else {
                continue;
            };
            let (page, second) = match self.read_pair(map, head) {
                Ok(pair) => pair,
                Err(KernelError::Source(SourceError::Io {
                    path,
                    action,
                    source,
                })) => {
                    return Err(SourceError::Io {
                        path,
                        action,
                        source,
                    }
                    .into());
                }
                Err(_) => continue,
            };
            let verdict = self
                .layout
                .classify(head, &page, &second, self.filter.wanted);
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

    /// The struct page of `frame` and the one behind it (empty if unmapped).
    fn read_pair(&self, map: VirtAddr, frame: u64) -> Result<(Vec<u8>, Vec<u8>), KernelError> {
        let kernel = self.filter.kernel;
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
