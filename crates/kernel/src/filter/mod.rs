//! Decides, chunk by chunk, which page frames a dump level keeps.

mod scan;
mod window;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, PageFrameRange};

use crate::error::KernelError;
use crate::kernel::Kernel;
use crate::mem_map::MemMap;
use crate::page::{BlockClassifier, PageClass, PageLayout, Wanted};
use crate::source::{CHUNK_FRAMES, PageReader};

use scan::Scan;
use window::Window;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// How to go through struct pages in blocks, if it can be done.
    blocks: Option<BlockClassifier>,
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
        let wanted = level.wanted();
        let layout = struct_pages.as_ref().map(|(_, layout)| layout);
        Ok(Self {
            kernel,
            wanted,
            blocks: layout.and_then(|layout| BlockClassifier::new(layout, wanted)),
            struct_pages,
            blind,
            end: kernel.source().end_frame(),
        })
    }

    /// Looks at every struct page by itself, not at 64 together. The same pages
    /// are kept; it shows that they are, and what the difference costs.
    pub fn exact_only(&mut self) {
        self.blocks = None;
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
                window: Window::default(),
            };
            scan.sections(reader)?;
            result = scan.result;
        }
        result.kept = kept.count();
        Ok(result)
    }
}
