//! The memory of an ELF core.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::{LoadSegment, Notes};
use bigiron_format::{PageFrame, VirtAddr};

use super::elf::ElfSource;
use super::elf_reader::ElfReader;
use super::file::IoMethod;
use super::{
    Extensions, HeaderAddresses, MemorySource, NotedText, PageReader, SECTION_FRAMES, SharedAccess,
    SourceFacts,
};
use crate::error::SourceError;

impl MemorySource for ElfSource {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn page_shift(&self) -> u32 {
        self.page_shift
    }

    fn endian(&self) -> Endian {
        self.headers.endian
    }

    fn machine(&self) -> &str {
        self.architecture.machine(self.headers.endian)
    }

    fn end_frame(&self) -> PageFrame {
        let end = self
            .segments
            .last()
            .map_or(0, |s| s.physical.0 + s.memory_size);
        PageFrame(end.div_ceil(1 << self.page_shift))
    }

    fn notes(&self) -> Notes<'_> {
        self.headers.notes()
    }

    fn vmcoreinfo_note(&self) -> Option<NotedText<'_>> {
        let (offset, len) = self.vmcoreinfo?;
        Some(NotedText {
            text: self.headers.notes.get(offset..offset + len)?,
            offset: self.headers.notes_offset.saturating_add(offset as u64),
        })
    }

    fn facts(&self) -> SourceFacts<'_> {
        SourceFacts {
            is_live: self.live,
            damage: self.damage.as_deref(),
            warning: self.impossible.as_deref(),
            ..SourceFacts::from_notes(self.notes())
        }
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            header_addresses: Some(self),
            shared_access: Some(self),
            ..Extensions::default()
        }
    }

    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        bits.clear();
        self.for_each_segment(first, |start, end, _| bits.set_range(start, end));
        Ok(())
    }

    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        bits.clear();
        self.for_each_segment(first, |start, _, data_end| bits.set_range(start, data_end));
        Ok(())
    }

    fn next_section(&self, first: PageFrame) -> Option<PageFrame> {
        let start = first.0 / SECTION_FRAMES * SECTION_FRAMES;
        let address = start << self.page_shift;
        let index = self
            .segments
            .partition_point(|s| s.physical.0 + s.memory_size <= address);
        let segment = self.segments.get(index)?;
        let frame = segment.physical.0.max(address) >> self.page_shift;
        Some(PageFrame(frame / SECTION_FRAMES * SECTION_FRAMES))
    }

    fn reader(&self, io: IoMethod) -> Box<dyn PageReader + '_> {
        Box::new(ElfReader::new(self, io))
    }
}

impl HeaderAddresses for ElfSource {
    fn virtual_address(&self, frame: PageFrame) -> Option<VirtAddr> {
        let address = frame.address(self.page_shift)?.0;
        let segment = self
            .segment_of(address)
            .filter(|segment| self.is_kernel(segment.virt))?;
        segment.virt.checked_add(address - segment.physical.0)
    }

    fn segment_address(&self, address: VirtAddr) -> Option<u64> {
        let holds = |segment: &&LoadSegment| {
            let offset = address.0.wrapping_sub(segment.virt.0);
            self.is_kernel(segment.virt) && offset < segment.memory_size
        };
        let segment = self.headers.segments.iter().find(holds)?;
        Some(segment.physical.0 + (address.0 - segment.virt.0))
    }

    fn header_segments(&self) -> &[LoadSegment] {
        &self.headers.segments
    }
}

impl ElfSource {
    /// Returns true if a segment's virtual address is valid.
    fn is_kernel(&self, address: VirtAddr) -> bool {
        address.0 >= self.architecture.kernel_start
    }
}

impl SharedAccess for ElfSource {
    fn parallel_readers(&self) -> usize {
        self.readers
    }
}
