//! A sadump, written by the firmware: on one partition, in a media backup, or on a set of disks. It
//! has all memory: pages of RAM that are not in it are zero.

use std::path::{Path, PathBuf};

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::{Endian, ReadAt};
use bigiron_format::elf::Notes;
use bigiron_format::sadump::{self, BLOCK_SIZE, Disk, Disks, Extent, NotOneDump};
use bigiron_format::{FormatError, PageFrame};

use super::super::file::IoMethod;
use super::super::run_length::RunLength;
use super::super::{MemorySource, NotedText, PageReader, SECTION_FRAMES, SourceFacts};
use crate::arch;
use crate::error::SourceError;
use crate::ranks::SectionRanks;

/// Pages read at once.
const MAX_PAGES: usize = 256;

/// A sadump.
pub struct SadumpSource {
    disks: Disks,
    /// Paths of the disks, in the order of the set.
    paths: Vec<PathBuf>,
    /// Dumped pages by section.
    ranks: SectionRanks,
    /// Registers of the CPUs.
    notes: Vec<u8>,
    /// CR3 of each CPU.
    page_tables: Vec<u64>,
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
            page_tables: Vec::new(),
            damage: None,
            warning: None,
        };
        source.count_pages()?;
        match source.disks.cpu_states() {
            Ok(states) if sadump::is_32_bit(&states) => {
                return Err(SourceError::Unsupported {
                    path: source.path().to_owned(),
                    reason: arch::refusal("i686")
                        .unwrap_or_else(|| "a dump of a 32-bit machine".into()),
                });
            }
            Ok(states) => {
                source.notes = sadump::notes(&states);
                source.page_tables = sadump::page_tables(&states);
            }
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
            self.dumped(PageFrame(section * SECTION_FRAMES), &mut bits)?;
            counts.push(bits.count() as u16);
        }
        self.ranks = SectionRanks::new(counts);
        Ok(())
    }

    /// Sets the bits of the page frames of a section that are not zero.
    fn dumped(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        let read = self.disks.dumped(first.0, bits);
        read.map_err(|cause| self.error(cause))
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
            damage: self.damage.as_deref(),
            warning: self.warning.as_deref(),
            page_tables: &self.page_tables,
            ..SourceFacts::default()
        }
    }

    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        let read = self.disks.ram(first.0, bits);
        read.map_err(|cause| self.error(cause))
    }

    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        self.ram(first, bits)
    }

    fn next_section(&self, first: PageFrame) -> Option<PageFrame> {
        let section = first.0 / SECTION_FRAMES;
        (section < self.sections()).then_some(PageFrame(section * SECTION_FRAMES))
    }

    fn reader(&self, _io: IoMethod) -> Box<dyn PageReader + '_> {
        Box::new(SadumpReader {
            source: self,
            section: None,
            ram: Bitmap::new(SECTION_FRAMES as usize),
            dumped: Bitmap::new(SECTION_FRAMES as usize),
            run_length: RunLength::default(),
            pages: Vec::new(),
        })
    }
}

/// One helper's reader.
struct SadumpReader<'a> {
    source: &'a SadumpSource,
    section: Option<u64>,
    /// The bitmaps of the section.
    ram: Bitmap,
    dumped: Bitmap,
    run_length: RunLength,
    pages: Vec<u8>,
}

impl SadumpReader<'_> {
    fn load(&mut self, section: u64) -> Result<(), SourceError> {
        if self.section != Some(section) {
            self.section = None;
            let first = PageFrame(section * SECTION_FRAMES);
            self.source.ram(first, &mut self.ram)?;
            self.source.dumped(first, &mut self.dumped)?;
            self.section = Some(section);
        }
        Ok(())
    }

    /// Locates the page `first` at `bit` of the section, and those in the dump behind it.
    fn locate(&self, section: u64, bit: usize, first: PageFrame) -> Result<Extent, SourceError> {
        let before = self.source.ranks.before(section as usize);
        let index = before + self.dumped.count_before(bit);
        let extent = self.source.disks.locate(index);
        extent.ok_or_else(|| SourceError::Lost {
            path: self.source.path().to_owned(),
            frame: first,
        })
    }
}

impl PageReader for SadumpReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let section = first.0 / SECTION_FRAMES;
        self.load(section)?;
        let bit = (first.0 % SECTION_FRAMES) as usize;
        let most = count.min(MAX_PAGES);
        let end = bit.saturating_add(most).min(self.ram.len());
        let ram = self.ram.next_run(bit, end, most);
        let Some((_, len)) = ram.filter(|(start, _)| *start == bit) else {
            return Err(SourceError::Absent {
                path: self.source.path().to_owned(),
                frame: first,
            });
        };
        let (start, run) = self
            .dumped
            .next_run(bit, bit + len, len)
            .unwrap_or((bit + len, 0));
        let page_size = BLOCK_SIZE as usize;
        self.pages.clear();
        if start > bit {
            self.pages.resize((start - bit) * page_size, 0);
            return Ok(&self.pages);
        }
        let extent = self.locate(section, bit, first)?;
        let len = usize::try_from(extent.pages).unwrap_or(run).min(run);
        let disk = &self.source.disks.all()[extent.disk];
        let pages = &mut self.pages;
        let read = self.run_length.read(len, |len| {
            pages.resize(len * page_size, 0);
            disk.file.read_exact_at("pages", extent.offset, pages)
        });
        read.map_err(|cause| SourceError::Format {
            path: self.source.paths[extent.disk].clone(),
            cause,
        })?;
        Ok(&self.pages)
    }
}
