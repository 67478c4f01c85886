//! A sadump, written by the firmware: on one partition, in a media backup, or on a set of disks.

use std::path::{Path, PathBuf};

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::{Endian, ReadAt};
use bigiron_format::elf::Notes;
use bigiron_format::sadump::{BLOCK_SIZE, Disk, Disks, Extent, NotOneDump};
use bigiron_format::{FormatError, PageFrame};

use super::file::IoMethod;
use super::run_length::RunLength;
use super::{MemorySource, NotedText, PageReader, SECTION_FRAMES, SourceFacts};
use crate::error::SourceError;
use crate::ranks::SectionRanks;

/// Pages read at once.
const MAX_PAGES: usize = 256;
/// The firmware leaves out pages of zeros, as dump level 1 does.
const DUMP_LEVEL: u8 = 1;

/// A sadump.
pub struct SadumpSource {
    disks: Disks,
    /// Paths of the disks, in the order of the set.
    paths: Vec<PathBuf>,
    /// Dumped pages by section.
    ranks: SectionRanks,
    /// Registers of the CPUs.
    notes: Vec<u8>,
    damage: Option<String>,
    warning: Option<String>,
}

impl SadumpSource {
    /// Opens the disks of one dump, given in any order.
    pub fn new(files: Vec<(Disk, PathBuf)>) -> Result<Self, SourceError> {
        let mut files = files;
        files.sort_by_key(|(disk, _)| disk.partition.number);
        let (disks, paths): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        let disks = Disks::new(disks).map_err(|error| match error {
            NotOneDump::Damaged(index, cause) => SourceError::Format {
                path: paths[index].clone(),
                cause,
            },
            NotOneDump::Foreign(index, reason) => SourceError::Unsupported {
                path: paths.get(index).cloned().unwrap_or_default(),
                reason,
            },
        })?;
        let mut source = Self {
            disks,
            paths,
            ranks: SectionRanks::default(),
            notes: Vec::new(),
            damage: None,
            warning: None,
        };
        source.count_pages()?;
        match source.disks.notes() {
            Ok(notes) => source.notes = notes,
            Err(error) => {
                let path = source.path().display();
                source.warning = Some(format!("{path}: the registers are not read: {error}"));
            }
        }
        source.damage = source.find_damage();
        Ok(source)
    }

    fn path(&self) -> &Path {
        &self.paths[0]
    }

    fn error(&self, cause: FormatError) -> SourceError {
        SourceError::Format {
            path: self.path().to_owned(),
            cause,
        }
    }

    fn sections(&self) -> u64 {
        self.disks.header.end_frame.div_ceil(SECTION_FRAMES)
    }

    /// Counts dumped pages by section, so that any page is found without reading the bitmap from
    /// its start.
    fn count_pages(&mut self) -> Result<(), SourceError> {
        let mut bits = Bitmap::new(SECTION_FRAMES as usize);
        let mut counts = Vec::with_capacity(self.sections() as usize);
        for section in 0..self.sections() {
            self.present(PageFrame(section * SECTION_FRAMES), &mut bits)?;
            counts.push(bits.count() as u16);
        }
        self.ranks = SectionRanks::new(counts);
        Ok(())
    }

    fn find_damage(&self) -> Option<String> {
        let (whole, total) = (self.disks.whole_pages(), self.ranks.total());
        if whole >= total {
            return None;
        }
        let lost = total - whole;
        Some(match self.disks.missing() {
            0 => format!("{lost} of its {total} pages are behind the end of its files"),
            missing => format!(
                "{missing} disks of the set are missing, and with them {lost} of {total} pages; \
                 give all its disks ({} here)",
                self.paths.len()
            ),
        })
    }
}

impl MemorySource for SadumpSource {
    fn kind(&self) -> &'static str {
        "sadump"
    }

    fn page_shift(&self) -> u32 {
        BLOCK_SIZE.trailing_zeros()
    }

    fn endian(&self) -> Endian {
        Endian::Little
    }

    fn machine(&self) -> &'static str {
        "x86_64"
    }

    fn end_frame(&self) -> PageFrame {
        PageFrame(self.disks.header.end_frame)
    }

    fn notes(&self) -> Notes<'_> {
        let at = self.disks.header.sub_header.unwrap_or(0);
        Notes::new(&self.notes, Endian::Little, at)
    }

    fn vmcoreinfo_note(&self) -> Option<NotedText<'_>> {
        None
    }

    fn facts(&self) -> SourceFacts<'_> {
        SourceFacts {
            dump_level: Some(DUMP_LEVEL),
            damage: self.damage.as_deref(),
            warning: self.warning.as_deref(),
            ..SourceFacts::default()
        }
    }

    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        let read = self.disks.ram(first.0, bits);
        read.map_err(|cause| self.error(cause))
    }

    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        let read = self.disks.dumped(first.0, bits);
        read.map_err(|cause| self.error(cause))
    }

    fn next_section(&self, first: PageFrame) -> Option<PageFrame> {
        let section = first.0 / SECTION_FRAMES;
        (section < self.sections()).then_some(PageFrame(section * SECTION_FRAMES))
    }

    fn reader(&self, _io: IoMethod) -> Box<dyn PageReader + '_> {
        Box::new(SadumpReader {
            source: self,
            section: None,
            bits: Bitmap::new(SECTION_FRAMES as usize),
            run_length: RunLength::default(),
            pages: Vec::new(),
        })
    }
}

/// One helper's reader.
struct SadumpReader<'a> {
    source: &'a SadumpSource,
    section: Option<u64>,
    bits: Bitmap,
    run_length: RunLength,
    pages: Vec<u8>,
}

impl SadumpReader<'_> {
    /// Returns where at most `count` pages from `first` on are, all on one disk.
    fn find(&mut self, first: PageFrame, count: usize) -> Result<Extent, SourceError> {
        let (source, section) = (self.source, first.0 / SECTION_FRAMES);
        if self.section != Some(section) {
            self.section = None;
            source.present(PageFrame(section * SECTION_FRAMES), &mut self.bits)?;
            self.section = Some(section);
        }
        let bit = (first.0 % SECTION_FRAMES) as usize;
        let run = self
            .bits
            .next_run(bit, self.bits.len(), count.min(MAX_PAGES));
        let Some((_, len)) = run.filter(|(start, _)| *start == bit) else {
            return Err(SourceError::Absent {
                path: source.path().to_owned(),
                frame: first,
            });
        };
        let index = source.ranks.before(section as usize) + self.bits.count_before(bit);
        let extent = source
            .disks
            .locate(index)
            .ok_or_else(|| SourceError::Lost {
                path: source.path().to_owned(),
                frame: first,
            })?;
        Ok(Extent {
            pages: extent.pages.min(len as u64),
            ..extent
        })
    }
}

impl PageReader for SadumpReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let extent = self.find(first, count)?;
        let disk = &self.source.disks.all()[extent.disk];
        let pages = &mut self.pages;
        let read = self.run_length.read(extent.pages as usize, |len| {
            pages.resize(len * BLOCK_SIZE as usize, 0);
            disk.file.read_exact_at("pages", extent.offset, pages)
        });
        read.map_err(|cause| SourceError::Format {
            path: self.source.paths[extent.disk].clone(),
            cause,
        })?;
        Ok(&self.pages)
    }
}
