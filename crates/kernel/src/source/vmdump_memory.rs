//! The memory of a vmdump.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::Notes;
use bigiron_format::vmdump::{Chunk, ChunkKind, Container};

use super::file::IoMethod;
#[cfg(feature = "cache")]
use super::vmdump::ChunkCache;
use super::vmdump::VmdumpSource;
#[cfg(feature = "cache")]
use super::vmdump_cached::CachedVmdumpReader;
use super::vmdump_reader::VmdumpReader;
use super::{Extensions, MemorySource, NotedText, PageReader, SharedAccess, SourceFacts};
use crate::error::SourceError;

impl MemorySource for VmdumpSource {
    fn kind(&self) -> &'static str {
        match self.header().container {
            Container::Zstd if self.header().is_striped() => "striped vmdump",
            Container::Zstd => "vmdump",
            Container::Bzip2 => "vmdump in bzip2",
        }
    }

    fn page_shift(&self) -> u32 {
        self.elf.page_shift()
    }

    fn endian(&self) -> Endian {
        self.elf.endian()
    }

    fn machine(&self) -> &str {
        self.elf.machine()
    }

    fn end_frame(&self) -> PageFrame {
        self.elf.end_frame()
    }

    fn notes(&self) -> Notes<'_> {
        self.elf.notes()
    }

    fn vmcoreinfo_note(&self) -> Option<NotedText<'_>> {
        self.elf.vmcoreinfo_note()
    }

    fn facts(&self) -> SourceFacts<'_> {
        let header = self.header();
        // A truncated file in bzip2 has no header.
        let has_header = !header.utsname.machine().is_empty();
        SourceFacts {
            utsname: has_header.then_some(&header.utsname),
            dump_level: has_header.then_some(header.dump_level & 31),
            codecs: vec![header.container.name()],
            damage: self.damage.as_deref(),
            stated_pages: self.stated_pages(),
            ..SourceFacts::from_notes(self.notes())
        }
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            header_addresses: Some(&self.elf),
            stored_sizes: Some(self),
            shared_access: Some(self),
            vmdump: Some(self),
        }
    }

    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        self.elf.ram(first, bits)
    }

    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        bits.clear();
        let shift = self.page_shift();
        for (start, offset, pages) in self.elf.file_ranges(first) {
            let end = offset + (pages << shift);
            let mut position = offset;
            while position < end {
                let Some(found) = self.parts.chunk_at(position)? else {
                    // Readers of a lost page get an error.
                    let next = match self.parts.lost_up_to(position)? {
                        Some(next) => next,
                        None => {
                            position = self.parts.next_position(position)?;
                            continue;
                        }
                    };
                    let from = start + ((position - offset) >> shift) as usize;
                    let to = start + ((next.min(end) - offset) >> shift) as usize;
                    (from..to).for_each(|bit| bits.set(bit));
                    position = next;
                    continue;
                };
                let chunk = &found.chunks[found.index];
                let stop = chunk.end().min(end);
                if chunk.kind == ChunkKind::Pages {
                    for page in
                        (position - chunk.position) >> shift..(stop - chunk.position) >> shift
                    {
                        if Chunk::bit(&chunk.dumped, page) {
                            let at = chunk.position + (page << shift);
                            bits.set(start + ((at - offset) >> shift) as usize);
                        }
                    }
                }
                position = stop;
            }
        }
        Ok(())
    }

    fn next_section(&self, first: PageFrame) -> Option<PageFrame> {
        self.elf.next_section(first)
    }

    fn reader(&self, _io: IoMethod) -> Box<dyn PageReader + '_> {
        #[cfg(feature = "cache")]
        if let Some(cache) = &self.cache {
            return Box::new(CachedVmdumpReader::new(self, cache));
        }
        Box::new(VmdumpReader::new(self))
    }
}

impl SharedAccess for VmdumpSource {
    #[cfg(feature = "cache")]
    fn cache_usage(&self) -> Option<super::CacheUsage> {
        self.cache.as_ref().map(ChunkCache::usage)
    }
}
