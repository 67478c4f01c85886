//! Makes the pages of a generated machine.

use bigiron_format::PageFrame;
use bigiron_kernel::{PageReader, SourceError};

use super::GeneratedMachine;
use super::blocks::{BLOCK_FRAMES, BlockKind};
use super::layout::{MAP_FRAMES, PAGE, PAGE_STRUCT, SECTION_FRAMES, STATIC_END};
use super::struct_pages;
use super::tables::Tables;

/// Pages made at once.
const MAX_PAGES: u64 = 512;
/// Struct pages in a page.
const STRUCTS: u64 = PAGE as u64 / PAGE_STRUCT;

/// One helper's reader with a buffer of its own.
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
