//! Code shared by several fuzz targets.

pub mod choices;
#[path = "../../crates/dump/tests/common/extents.rs"]
pub mod extents;
pub mod failing;
#[path = "../../crates/kernel/tests/common/kernel_bytes.rs"]
mod kernel_bytes;
pub mod limits;
pub mod made_btf;
pub mod made_kdump;
pub mod made_vmdump;
pub mod naive_kdump;
pub mod naive_vmdump;
pub mod repeated;
pub mod sample;
pub mod vmdump_edits;

use std::io;
use std::path::PathBuf;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, ReadAt};
use bigiron_kernel::{IoMethod, MemorySource, SECTION_FRAMES, Source, SourceError};

pub use kernel_bytes::KernelBytes;

use choices::Choices;
use failing::{Failing, Faults};
use limits::{DUMP_MEMORY, Metered, within};

/// Maximum number of sections that a target processes per input.
const MAX_SECTIONS: usize = 64;
/// Maximum number of pages that a target reads per input.
const MAX_PAGES: usize = 4096;

/// A dump with modified bytes; the dump itself is made once.
pub struct Patched {
    /// The dump.
    pub base: &'static [u8],
    /// Offsets and their new bytes; later edits override earlier ones.
    pub patches: Vec<(usize, Vec<u8>)>,
}

impl Patched {
    /// Changes `count` words of 8 bytes, each at an offset that `place` chooses.
    pub fn edited(
        base: &'static [u8],
        count: u8,
        choices: &mut Choices<'_>,
        mut place: impl FnMut(&mut Choices<'_>) -> usize,
    ) -> Self {
        let patches = (0..count).map(|_| {
            let at = place(choices);
            let now = base.get(at..at + 8).unwrap_or_default();
            let now = now.try_into().map_or(0, u64::from_le_bytes);
            (at, choices.number(now).to_le_bytes().to_vec())
        });
        let patches = patches.collect();
        Self { base, patches }
    }
}

impl ReadAt for Patched {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.base.read_at(offset, buf)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(count);
        for (at, bytes) in &self.patches {
            let from = start.max(*at);
            let to = end.min(at + bytes.len());
            if from < to {
                buf[from - start..to - start].copy_from_slice(&bytes[from - at..to - at]);
            }
        }
        Ok(count)
    }

    fn size(&self) -> u64 {
        self.base.len() as u64
    }
}

/// Opens bytes in memory as a dump. No more of it is read than is in proportion to its size.
pub fn open(bytes: impl ReadAt + 'static) -> Result<Source, SourceError> {
    Source::from_bytes(Box::new(Metered::new(bytes)), PathBuf::from("fuzzed"))
}

/// Opens files of `size` bytes together as a dump and reads its pages, within the limits of
/// memory and of work.
pub fn check_files(files: impl Iterator<Item = Patched>, size: usize) {
    let named = files.enumerate().map(|(index, file)| {
        let file: Box<dyn ReadAt> = Box::new(Metered::new(file));
        (file, PathBuf::from(format!("file{index}")))
    });
    let named: Vec<_> = named.collect();
    within(DUMP_MEMORY, size, || {
        if let Ok(source) = Source::from_several(named) {
            let memory = source.memory();
            let _ = (memory.facts(), memory.notes().intact().count());
            read_pages(memory);
        }
    });
}

/// Opens the dump of an input, and reads its pages: once as it is, within the limits of memory,
/// and once from a disk that fails.
pub fn check_dump(bytes: &[u8]) {
    within(DUMP_MEMORY, bytes.len(), || {
        if let Ok(source) = open(bytes.to_vec()) {
            let memory = source.memory();
            let _ = (memory.vmcoreinfo_note(), memory.facts());
            read_pages(memory);
        }
    });
    let faults = Faults::choose(&mut Choices(bytes), bytes.len() as u64);
    if let Ok(source) = open(Failing::new(bytes.to_vec(), faults)) {
        read_pages(source.memory());
    }
}

/// Returns the page frames whose data the source has, as far as it is asked by targets.
pub fn present_frames(source: &dyn MemorySource) -> Vec<u64> {
    let mut present = Bitmap::new(SECTION_FRAMES as usize);
    let mut frames = Vec::new();
    for first in sections(source) {
        if source.present(first, &mut present).is_ok() {
            let bits = (0..SECTION_FRAMES as usize).filter(|bit| present.get(*bit));
            frames.extend(bits.map(|bit| first.0 + bit as u64));
        }
    }
    frames.truncate(MAX_PAGES);
    frames
}

/// Returns the first sections of a source; a header may promise any number of them.
pub fn sections(source: &dyn MemorySource) -> Vec<PageFrame> {
    let mut sections = Vec::new();
    let mut next = source.next_section(PageFrame(0));
    while let Some(first) = next
        && sections.len() < MAX_SECTIONS
    {
        sections.push(first);
        let behind = source.next_section(PageFrame(first.0 + SECTION_FRAMES));
        assert!(behind.is_none_or(|behind| behind > first), "no progress");
        next = behind;
    }
    sections
}

/// Reads pages of all sections as the dump engine does, and checks the source's promises: a
/// reader returns whole pages, and present pages are in RAM.
pub fn read_pages(source: &dyn MemorySource) {
    let page_size = 1 << source.page_shift();
    let mut reader = source.reader(IoMethod::Read);
    let mut present = Bitmap::new(SECTION_FRAMES as usize);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut left = MAX_PAGES;
    for first in sections(source) {
        if source.ram(first, &mut ram).is_err() || source.present(first, &mut present).is_err() {
            continue;
        }
        let mut from = 0;
        while left > 0
            && let Some((start, len)) = present.next_run(from, present.len(), 64)
        {
            left -= 1;
            let frame = PageFrame(first.0 + start as u64);
            match reader.pages(frame, len) {
                Ok(pages) => {
                    assert!(!pages.is_empty() && pages.len() <= len * page_size);
                    assert_eq!(pages.len() % page_size, 0);
                    from = start + pages.len() / page_size;
                }
                Err(_) => from = start + 1,
            }
        }
    }
}
