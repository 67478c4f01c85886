//! The generated machine as a memory source: its pages are made when they are read.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::Notes;
use bigiron_format::{PageFrame, VirtAddr};
use bigiron_kernel::{
    Extensions, HeaderAddresses, IoMethod, MemorySource, PageReader, SourceError,
};

use super::GeneratedMachine;
use super::blocks::{BLOCK_FRAMES, BlockKind};
use super::layout::{MAP_FRAMES, PAGE, PAGE_OFFSET, PAGE_STRUCT, SECTION_FRAMES, STATIC_END};
use super::struct_pages;
use super::tables::Tables;

/// Pages made at once.
const MAX_PAGES: u64 = 512;
/// Struct pages in a page.
const STRUCTS: u64 = PAGE as u64 / PAGE_STRUCT;

impl MemorySource for GeneratedMachine {
    fn kind(&self) -> &'static str {
        "generated machine"
    }

    fn page_shift(&self) -> u32 {
        12
    }

    fn endian(&self) -> Endian {
        Endian::Little
    }

    fn machine(&self) -> &str {
        "x86_64"
    }

    fn end_frame(&self) -> PageFrame {
        PageFrame(self.layout.end())
    }

    fn notes(&self) -> Notes<'_> {
        Notes::new(&self.notes, Endian::Little, 0)
    }

    fn vmcoreinfo_note(&self) -> Option<&[u8]> {
        Some(self.text.as_bytes())
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            header_addresses: Some(self),
            ..Extensions::default()
        }
    }

    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        bits.clear();
        if self.layout.is_ram(first.0) {
            bits.set_range(0, SECTION_FRAMES as usize);
        }
        Ok(())
    }

    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        bits.clear();
        self.for_each_block(first.0 / SECTION_FRAMES, |block, _, present| {
            if present {
                let start = (block - first.0) as usize;
                bits.set_range(start, start + BLOCK_FRAMES as usize);
            }
        });
        Ok(())
    }

    fn next_section(&self, first: PageFrame) -> Option<PageFrame> {
        let start = first.0 / SECTION_FRAMES * SECTION_FRAMES;
        let range = self.layout.ram.iter().find(|range| start < range.end)?;
        Some(PageFrame(start.max(range.start)))
    }

    /// Pages are made whatever `io` is. Tables and struct pages are there even
    /// where a sampled machine has no data.
    fn reader(&self, _io: IoMethod) -> Box<dyn PageReader + '_> {
        Box::new(GeneratedReader::new(self))
    }
}

impl HeaderAddresses for GeneratedMachine {
    /// In the direct map, as /proc/vmcore's headers say it.
    fn virtual_address(&self, frame: PageFrame) -> Option<VirtAddr> {
        VirtAddr(PAGE_OFFSET).checked_add(frame.0 * PAGE as u64)
    }
}

const _: () = assert!(
    SECTION_FRAMES == bigiron_kernel::SECTION_FRAMES,
    "samples consist of whole sections"
);

/// The reader of one helper, with its own buffer.
pub(super) struct GeneratedReader<'a> {
    machine: &'a GeneratedMachine,
    buffer: Vec<u8>,
}

impl<'a> GeneratedReader<'a> {
    pub(super) fn new(machine: &'a GeneratedMachine) -> Self {
        Self {
            machine,
            buffer: Vec::new(),
        }
    }
}

impl PageReader for GeneratedReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let machine = self.machine;
        let mut ranges = machine.layout.ram.iter();
        let Some(range) = ranges.find(|range| range.contains(&first.0)) else {
            return Err(SourceError::Absent {
                path: machine.path().to_owned(),
                frame: first,
            });
        };
        let count = (count as u64).min(range.end - first.0).min(MAX_PAGES);
        let len = count as usize * PAGE;
        self.buffer.resize(len.max(self.buffer.len()), 0);
        let pages = &mut self.buffer[..len];
        let mut frame = first.0;
        let mut rest = &mut pages[..];
        while !rest.is_empty() {
            let block_end = (frame | (BLOCK_FRAMES - 1)) + 1;
            let take = (block_end - frame).min((rest.len() / PAGE) as u64);
            let (now, later) = rest.split_at_mut(take as usize * PAGE);
            machine.write_pages(frame, now);
            (frame, rest) = (frame + take, later);
        }
        Ok(&self.buffer[..len])
    }
}

impl GeneratedMachine {
    /// Writes pages from `first` on, all of one block.
    fn write_pages(&self, first: u64, pages: &mut [u8]) {
        let kind = self.block(first);
        let numbered = |pages| (first..).zip(<[u8]>::chunks_exact_mut(pages, PAGE));
        match kind {
            BlockKind::MemMap => self.write_struct_pages(first, pages),
            BlockKind::Static => {
                let tables = Tables {
                    layout: &self.layout,
                    free: &self.free,
                    has_mem_map: &|ordinal| self.has_mem_map(ordinal),
                };
                debug_assert!(first < STATIC_END);
                for (frame, page) in numbered(pages) {
                    self.contents.write(kind, frame, page);
                    tables.write(frame, page);
                }
            }
            _ => {
                for (frame, page) in numbered(pages) {
                    self.contents.write(kind, frame, page);
                }
            }
        }
    }

    /// Writes pages of the memory map: each holds the struct pages of a part
    /// of a block.
    fn write_struct_pages(&self, first: u64, pages: &mut [u8]) {
        let mut at = first - self.layout.mem_map().start;
        let mut rest = pages;
        while !rest.is_empty() {
            let Some(section) = self.layout.section(at / MAP_FRAMES) else {
                // The block's end, behind the last section's struct pages.
                rest.fill(0);
                return;
            };
            let described = section * SECTION_FRAMES + at % MAP_FRAMES * STRUCTS;
            let block_end = (described | (BLOCK_FRAMES - 1)) + 1;
            let take = ((block_end - described) / STRUCTS).min((rest.len() / PAGE) as u64);
            let (now, later) = rest.split_at_mut(take as usize * PAGE);
            struct_pages::write(&self.layout, self.block(described), described, now);
            (at, rest) = (at + take, later);
        }
    }
}
