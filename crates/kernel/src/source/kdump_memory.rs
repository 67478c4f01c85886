//! The memory of a kdump-compressed dump.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::Notes;

use super::file::IoMethod;
use super::kdump::KdumpSource;
#[cfg(feature = "cache")]
use super::kdump_cache::KdumpCache;
#[cfg(feature = "cache")]
use super::kdump_cached::CachedKdumpReader;
use super::kdump_reader::KdumpReader;
use super::{
    Extensions, MemorySource, NotedText, PageReader, SECTION_FRAMES, SharedAccess, SourceFacts,
};
use crate::error::SourceError;

impl MemorySource for KdumpSource {
    fn kind(&self) -> &'static str {
        if self.parts.len() > 1 {
            "split kdump-compressed"
        } else {
            "kdump-compressed"
        }
    }

    fn page_shift(&self) -> u32 {
        self.head().block_size.trailing_zeros()
    }

    fn endian(&self) -> Endian {
        self.endian
    }

    fn machine(&self) -> &str {
        self.architecture.machine(self.endian)
    }

    fn end_frame(&self) -> PageFrame {
        PageFrame(self.head().end_frame)
    }

    fn notes(&self) -> Notes<'_> {
        match &self.notes {
            Some(notes) => Notes::new(notes, self.endian, self.head().offset_note),
            None => self.head().notes(),
        }
    }

    fn vmcoreinfo_note(&self) -> Option<NotedText<'_>> {
        let (text, offset) = self.vmcoreinfo.as_ref()?;
        Some(NotedText {
            text,
            offset: *offset,
        })
    }

    fn facts(&self) -> SourceFacts<'_> {
        let head = self.head();
        SourceFacts {
            erase_info: &head.erase_info,
            utsname: Some(&head.utsname),
            dump_level: Some((head.dump_level & 31) as u8),
            lacks_struct_pages: head.lacks_struct_pages,
            codecs: self.codecs(),
            damage: self.damage.as_deref(),
            ..SourceFacts::default()
        }
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            stored_sizes: Some(self),
            shared_access: Some(self),
            ..Extensions::default()
        }
    }

    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        let section = first.0 / SECTION_FRAMES;
        self.ram_bits(section, bits)?;
        if !self.adds_dumped_to_ram() {
            return Ok(());
        }
        let mut dumped = Bitmap::new(SECTION_FRAMES as usize);
        self.dumped_in_section(first, &mut dumped)?;
        bits.or(&dumped);
        Ok(())
    }

    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        self.dumped_in_section(first, bits)?;
        // Pages between the given parts are in files that were not given.
        let mut covered = 0;
        for part in &self.parts {
            let inside = |frame: PageFrame| {
                frame.0.clamp(first.0, first.0 + SECTION_FRAMES) as usize - first.0 as usize
            };
            bits.clear_range(covered, inside(part.frames.start));
            covered = inside(part.frames.end);
        }
        bits.clear_range(covered, SECTION_FRAMES as usize);
        Ok(())
    }

    fn next_section(&self, first: PageFrame) -> Option<PageFrame> {
        let (layout, section) = (&self.head().layout, first.0 / SECTION_FRAMES);
        let ram = self.next_used_section(layout.ram_bitmap(), section);
        let dumped = match self.adds_dumped_to_ram() {
            true => self.next_used_section(layout.dumped_bitmap(), section),
            false => None,
        };
        let section = ram.into_iter().chain(dumped).min()?;
        Some(PageFrame(section * SECTION_FRAMES))
    }

    fn reader(&self, _io: IoMethod) -> Box<dyn PageReader + '_> {
        #[cfg(feature = "cache")]
        if let Some(cache) = &self.cache {
            return Box::new(CachedKdumpReader::new(self, cache));
        }
        Box::new(KdumpReader::new(self))
    }
}

impl SharedAccess for KdumpSource {
    #[cfg(feature = "cache")]
    fn cache_usage(&self) -> Option<super::CacheUsage> {
        self.cache.as_ref().map(KdumpCache::usage)
    }
}
