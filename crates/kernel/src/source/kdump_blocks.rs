//! A kdump-compressed dump whose blocks hold several pages each: QEMU writes blocks of 64 KiB for
//! machines whose kernels may have such pages.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::Notes;

use super::file::IoMethod;
use super::kdump::KdumpSource;
use super::{
    CacheUsage, Extensions, MemorySource, NotedText, PageReader, SECTION_FRAMES, SeeStored,
    SharedAccess, SharedPages, SourceFacts, StoredSizes,
};
use crate::error::SourceError;

/// The dump, by the kernel's pages.
pub(super) struct KdumpBlocks {
    kdump: KdumpSource,
    page_shift: u32,
}

impl KdumpBlocks {
    /// Divides the blocks of `kdump` into pages of `1 << page_shift` bytes.
    pub(super) fn new(kdump: KdumpSource, page_shift: u32) -> Self {
        Self { kdump, page_shift }
    }

    /// See `Source::set_cache`.
    #[cfg(feature = "cache")]
    pub(super) fn set_cache(&mut self, bytes: u64) {
        self.kdump.set_cache(bytes);
    }

    /// log2 of the number of pages in a block.
    fn shift(&self) -> u32 {
        self.kdump.page_shift() - self.page_shift
    }

    /// Sets in `bits` the pages of the section at `first` whose blocks are set in the bitmap that
    /// `read` reads.
    fn expand(
        &self,
        first: PageFrame,
        bits: &mut Bitmap,
        read: impl Fn(PageFrame, &mut Bitmap) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let shift = self.shift();
        let block = first.0 >> shift;
        let section = block / SECTION_FRAMES * SECTION_FRAMES;
        let mut blocks = Bitmap::new(SECTION_FRAMES as usize);
        read(PageFrame(section), &mut blocks)?;
        bits.clear();
        let start = (block - section) as usize;
        let end = start + (SECTION_FRAMES as usize >> shift);
        let mut from = start;
        while let Some((run, len)) = blocks.next_run(from, end, end) {
            from = run + len;
            bits.set_range((run - start) << shift, (from - start) << shift);
        }
        Ok(())
    }
}

impl MemorySource for KdumpBlocks {
    fn kind(&self) -> &'static str {
        self.kdump.kind()
    }

    fn page_shift(&self) -> u32 {
        self.page_shift
    }

    fn endian(&self) -> Endian {
        self.kdump.endian()
    }

    fn machine(&self) -> &str {
        self.kdump.machine()
    }

    fn end_frame(&self) -> PageFrame {
        PageFrame(self.kdump.end_frame().0 << self.shift())
    }

    fn notes(&self) -> Notes<'_> {
        self.kdump.notes()
    }

    fn vmcoreinfo_note(&self) -> Option<NotedText<'_>> {
        self.kdump.vmcoreinfo_note()
    }

    fn facts(&self) -> SourceFacts<'_> {
        self.kdump.facts()
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            stored_sizes: Some(self),
            shared_access: Some(self),
            ..Extensions::default()
        }
    }

    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        self.expand(first, bits, |first, bits| self.kdump.ram(first, bits))
    }

    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        self.expand(first, bits, |first, bits| self.kdump.present(first, bits))
    }

    fn next_section(&self, first: PageFrame) -> Option<PageFrame> {
        let shift = self.shift();
        let block = first.0 >> shift;
        let section = self.kdump.next_section(PageFrame(block))?;
        let frame = section.0.max(block) << shift;
        Some(PageFrame(frame / SECTION_FRAMES * SECTION_FRAMES))
    }

    fn reader(&self, io: IoMethod) -> Box<dyn PageReader + '_> {
        Box::new(BlockReader {
            shift: self.shift(),
            page_shift: self.page_shift,
            blocks: self.kdump.reader(io),
        })
    }
}

impl StoredSizes for KdumpBlocks {
    /// Each page has an equal share of its block.
    fn stored(&self, first: PageFrame, see: &mut SeeStored<'_>) -> Result<(), SourceError> {
        let shift = self.shift();
        let block = first.0 >> shift;
        let section = PageFrame(block / SECTION_FRAMES * SECTION_FRAMES);
        let blocks = block..block + (SECTION_FRAMES >> shift);
        self.kdump.stored(section, &mut |found, size| {
            if blocks.contains(&found.0) {
                for page in 0..1_u64 << shift {
                    // Distribute the rounding remainder.
                    let bytes = ((size * (page + 1)) >> shift) - ((size * page) >> shift);
                    see(PageFrame((found.0 << shift) + page), bytes);
                }
            }
        })
    }
}

impl SharedAccess for KdumpBlocks {
    fn cache_usage(&self) -> Option<CacheUsage> {
        self.kdump.cache_usage()
    }
}

/// One helper's reader.
struct BlockReader<'a> {
    shift: u32,
    page_shift: u32,
    blocks: Box<dyn PageReader + 'a>,
}

impl BlockReader<'_> {
    /// Returns the first block of `count` pages from `first` on, the number of blocks, and the
    /// offset of the first page.
    fn place(&self, first: PageFrame, count: usize) -> (PageFrame, usize, usize) {
        let block = first.0 >> self.shift;
        let page = (first.0 - (block << self.shift)) as usize;
        let blocks = page.saturating_add(count).div_ceil(1 << self.shift);
        (PageFrame(block), blocks, page << self.page_shift)
    }
}

impl PageReader for BlockReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let (block, blocks, offset) = self.place(first, count);
        let bytes = self.blocks.pages(block, blocks)?;
        let end = offset.saturating_add(count << self.page_shift);
        Ok(&bytes[offset..end.min(bytes.len())])
    }

    fn shared(&mut self, first: PageFrame, count: usize) -> Result<SharedPages, SourceError> {
        let (block, blocks, offset) = self.place(first, count);
        let pages = self.blocks.shared(block, blocks)?;
        let end = offset.saturating_add(count << self.page_shift);
        Ok(pages.part(offset..end))
    }
}
