//! kdump-compressed files as a memory source: whole, split, flattened, complete or not.

use std::path::{Path, PathBuf};

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::codec::Codec;
use bigiron_format::elf::note;
use bigiron_format::kdump::{KdumpHeaders, LostBits, flags_of_codec};
use bigiron_format::salvage::Unreadable;
use bigiron_format::{FormatError, PageFrame, PageFrameRange, ReadAt};

#[cfg(feature = "cache")]
use super::MemorySource;
use super::SECTION_FRAMES;
use super::identity::identify;
#[cfg(feature = "cache")]
use super::kdump_cache::KdumpCache;
use crate::arch::{self, Architecture};
use crate::error::SourceError;
use crate::ranks::SectionRanks;

/// Maximum size of VMCOREINFO, which has at most a page.
const MAX_VMCOREINFO: u64 = 64 << 10;
/// Bytes of a bitmap for one section.
const SECTION_BYTES: u64 = SECTION_FRAMES / 8;

/// A file of a dump.
pub(super) struct Part {
    pub(super) bytes: Box<dyn ReadAt>,
    pub(super) path: PathBuf,
    pub(super) headers: KdumpHeaders,
    /// The page frames whose descriptors it has.
    pub(super) frames: PageFrameRange,
    /// Dumped pages below `frames.start`.
    pub(super) first_index: u64,
    /// Offset behind its page descriptors. No page's data is below.
    pub(super) data_start: u64,
    /// The pages whose descriptors it has.
    pub(super) pages: u64,
    /// What its descriptors tell of bits that cannot be read.
    pub(super) lost_bits: LostBits,
}

impl Part {
    pub(super) fn error(&self, cause: FormatError) -> SourceError {
        SourceError::Format {
            path: self.path.clone(),
            cause,
        }
    }
}

/// Dumped pages that are not RAM according to the RAM bitmap. No writer produces them: makedumpfile and
/// bigiron clear bits of a copy of the RAM bitmap, and QEMU writes the same bitmap twice. So the
/// RAM bitmap is damaged, and the pages are read as RAM.
#[derive(Clone, Copy)]
pub(super) struct OutsideRam {
    pages: u64,
    first: PageFrame,
}

/// A kdump-compressed dump.
pub struct KdumpSource {
    pub(super) parts: Vec<Part>,
    /// Dumped pages by section, from the dumped bitmap.
    ranks: SectionRanks,
    /// Dumped pages that are not RAM according to the RAM bitmap; `None` in a sound dump, and if
    /// that was not compared.
    pub(super) outside_ram: Option<OutsideRam>,
    /// What no file returns of the dumped bitmap.
    pub(super) unreadable: Unreadable,
    /// The text of VMCOREINFO and its offset.
    pub(super) vmcoreinfo: Option<(Vec<u8>, u64)>,
    /// The reason why VMCOREINFO is not where the sub-header says.
    misplaced: Option<FormatError>,
    pub(super) architecture: &'static Architecture,
    /// Byte order of the kernel.
    pub(super) endian: Endian,
    /// The notes in that byte order, if the headers have another one.
    pub(super) notes: Option<Vec<u8>>,
    pub(super) damage: Option<String>,
    #[cfg(feature = "cache")]
    pub(super) cache: Option<KdumpCache>,
}

impl KdumpSource {
    /// Opens the files of one dump: one, or all parts of a split one.
    pub fn new(files: Vec<(Box<dyn ReadAt>, PathBuf)>) -> Result<Self, SourceError> {
        let mut parts = Vec::with_capacity(files.len());
        for (bytes, path) in files {
            // The headers of 32-bit machines have another layout.
            if let Ok(names) = KdumpHeaders::read_utsname(bytes.as_ref())
                && let Some(reason) = arch::refusal(names.machine())
            {
                return Err(SourceError::Unsupported { path, reason });
            }
            let headers =
                KdumpHeaders::read(bytes.as_ref()).map_err(|cause| SourceError::Format {
                    path: path.clone(),
                    cause,
                })?;
            let frames = headers.frames();
            let frames = PageFrameRange::new(frames.start, frames.end);
            parts.push(Part {
                bytes,
                path,
                headers,
                frames,
                first_index: 0,
                data_start: 0,
                pages: 0,
                lost_bits: LostBits::default(),
            });
        }
        parts.sort_by_key(|part| part.frames.start);
        check_parts(&parts)?;
        let first = &parts[0];
        let architecture = architecture(first)?;
        let (vmcoreinfo, misplaced) = find_vmcoreinfo(first);
        let first_endian = first.headers.endian;
        let mut source = Self {
            parts,
            ranks: SectionRanks::default(),
            outside_ram: None,
            unreadable: Unreadable::default(),
            vmcoreinfo,
            misplaced,
            architecture,
            endian: first_endian,
            notes: None,
            damage: None,
            #[cfg(feature = "cache")]
            cache: None,
        };
        source.count_pages()?;
        source.damage = source.find_damage();
        Ok(source)
    }

    /// Determines the kernel's byte order, which may differ from that of the headers, and its page
    /// size, of which a block may hold several. Returns log2 of the page size.
    pub(super) fn identify(&mut self) -> Result<u32, SourceError> {
        let (header, block) = (self.endian, self.head().block_size.trailing_zeros());
        let identity = identify(self, self.architecture, header, Some(block));
        if identity.page_shift > block {
            return Err(SourceError::Unsupported {
                path: self.path().to_owned(),
                reason: format!(
                    "its blocks of {} bytes (offset 428) are smaller than the kernel's pages of {}",
                    1_u64 << block,
                    1_u64 << identity.page_shift
                ),
            });
        }
        if identity.endian != header {
            self.notes = Some(note::reorder(self.head().notes(), identity.endian));
            self.endian = identity.endian;
        }
        Ok(identity.page_shift)
    }

    /// The part with the descriptor of `frame`.
    pub(super) fn part_of(&self, frame: PageFrame) -> Option<&Part> {
        self.parts.iter().find(|part| part.frames.contains(frame))
    }

    /// Returns the dumped bitmap of the section of `frame`, and the number of dumped pages
    /// before it.
    pub(super) fn dumped_in_section(
        &self,
        frame: PageFrame,
        bits: &mut Bitmap,
    ) -> Result<u64, SourceError> {
        let section = frame.0 / SECTION_FRAMES;
        self.dumped_bits(section, bits)?;
        Ok(self.ranks.before(section as usize))
    }

    /// See `Source::set_cache`.
    #[cfg(feature = "cache")]
    pub(super) fn set_cache(&mut self, bytes: u64) {
        self.cache = KdumpCache::new(bytes, self.page_shift());
    }

    pub(super) fn codecs(&self) -> Vec<&'static str> {
        let flags = self.parts.iter().map(|part| part.headers.codec_flags);
        let flags = flags.fold(0, |all, flags| all | flags);
        let named = |codec: &Codec| flags_of_codec(*codec) & flags != 0;
        let codecs = Codec::ALL.into_iter().filter(named);
        codecs.map(Codec::name).collect()
    }

    pub(super) fn path(&self) -> &Path {
        &self.parts[0].path
    }

    pub(super) fn head(&self) -> &KdumpHeaders {
        &self.parts[0].headers
    }

    fn sections(&self) -> u64 {
        self.head().end_frame.div_ceil(SECTION_FRAMES)
    }

    /// Counts dumped pages by section, so that any page's descriptor is found without reading
    /// the bitmap from its start, and compares the two bitmaps. Of a remote dump the RAM bitmap is not
    /// read for that: it is as large as the other one, and most commands need little more.
    fn count_pages(&mut self) -> Result<(), SourceError> {
        let layout = self.head().layout;
        let size = self.parts[0].bytes.size();
        if layout.descriptors() > size {
            return Err(self.parts[0].error(FormatError::Truncated {
                what: "the bitmaps",
                offset: layout.ram_bitmap(),
                needed: 2 * layout.bitmap_size,
                size,
            }));
        }
        self.complete_bitmap()?;
        let mut bits = Bitmap::new(SECTION_FRAMES as usize);
        let mut ram = Bitmap::new(SECTION_FRAMES as usize);
        let mut counts = vec![0; self.sections() as usize];
        let mut next = self.next_used_section(layout.dumped_bitmap(), 0);
        while let Some(section) = next {
            self.dumped_bits(section, &mut bits)?;
            let count = bits.count();
            counts[section as usize] = count as u16;
            if count > 0 && !self.parts[0].bytes.is_remote() {
                self.ram_bits(section, &mut ram)?;
                self.add_outside_ram(section, &mut bits, &ram);
            }
            next = self.next_used_section(layout.dumped_bitmap(), section + 1);
        }
        self.ranks = SectionRanks::new(counts);
        for index in 0..self.parts.len() {
            let part = &self.parts[index];
            let first_index = self.rank(part.frames.start);
            let pages = self.rank(part.frames.end).saturating_sub(first_index);
            let data_start = part.headers.layout.descriptor(pages);
            let part = &mut self.parts[index];
            (part.first_index, part.data_start) = (first_index, data_start);
            part.pages = pages;
        }
        Ok(())
    }

    /// Returns true if the pages that were dumped count as RAM whatever the RAM bitmap says: it is
    /// damaged, or was not compared.
    pub(super) fn adds_dumped_to_ram(&self) -> bool {
        self.outside_ram.is_some() || self.parts[0].bytes.is_remote()
    }

    /// Counts the dumped pages of a section, `dumped`, that are not in `ram`. Leaves only these in
    /// `dumped`.
    fn add_outside_ram(&mut self, section: u64, dumped: &mut Bitmap, ram: &Bitmap) {
        dumped.and_not(ram);
        let Some((bit, _)) = dumped.next_run(0, dumped.len(), 1) else {
            return;
        };
        let outside = self.outside_ram.get_or_insert(OutsideRam {
            pages: 0,
            first: PageFrame(section * SECTION_FRAMES + bit as u64),
        });
        outside.pages += dumped.count();
    }

    /// Returns the first section from `section` on that may have a bit set in the bitmap at
    /// offset `bitmap`. A file may claim far more page frames than it has; the holes of a
    /// sparse file are skipped.
    pub(super) fn next_used_section(&self, bitmap: u64, section: u64) -> Option<u64> {
        let bytes = &self.parts[0].bytes;
        let data = bytes.next_data(bitmap.saturating_add(section.saturating_mul(SECTION_BYTES)));
        let found = section.max(data.saturating_sub(bitmap) / SECTION_BYTES);
        (found < self.sections()).then_some(found)
    }

    /// Describes damaged and missing parts.
    fn find_damage(&self) -> Option<String> {
        let misplaced = self.misplaced.as_ref().map(|error| {
            format!(
                "{}: the place of VMCOREINFO in the sub-header is damaged: {error}",
                self.path().display()
            )
        });
        let reasons = [
            misplaced,
            self.describe_unreadable(),
            self.describe_outside_ram(),
            self.find_missing(),
        ];
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    fn describe_outside_ram(&self) -> Option<String> {
        let OutsideRam { pages, first } = self.outside_ram?;
        Some(format!(
            "{}: the RAM bitmap is damaged: {pages} of {} dumped pages are not RAM in it (first: page \
             frame {first}, expected bit {} of the byte at offset {:#x} to be set); all of them are \
             read as RAM",
            self.path().display(),
            self.ranks.total(),
            first.0 % 8,
            self.head().layout.ram_bitmap() + first.0 / 8,
        ))
    }

    /// Describes missing parts: the writer's own mark, a truncated file, an absent part.
    fn find_missing(&self) -> Option<String> {
        if let Some(part) = self.parts.iter().find(|part| part.headers.incomplete) {
            return Some(format!(
                "{} is marked incomplete (status at offset 424): its writer was interrupted",
                part.path.display()
            ));
        }
        for part in &self.parts {
            let end = part.data_start;
            if end > part.bytes.size() {
                return Some(format!(
                    "{} ends at offset {:#x}, inside its page descriptors, which go on to \
                     {end:#x}: it is truncated",
                    part.path.display(),
                    part.bytes.size()
                ));
            }
        }
        let covered: u64 = self.parts.iter().map(|part| part.frames.len()).sum();
        (covered < self.head().end_frame).then(|| {
            format!(
                "it is part of a split dump; give all its files ({} here)",
                self.parts.len()
            )
        })
    }

    /// Dumped pages below `frame`; where the bitmap cannot be read, those below its section.
    fn rank(&self, frame: PageFrame) -> u64 {
        let before = self.ranks.before((frame.0 / SECTION_FRAMES) as usize);
        let bit = (frame.0 % SECTION_FRAMES) as usize;
        if frame.0 >= self.head().end_frame {
            return self.ranks.total();
        }
        if bit == 0 {
            return before;
        }
        let mut bits = Bitmap::new(SECTION_FRAMES as usize);
        match self.dumped_in_section(frame, &mut bits) {
            Ok(_) => before + bits.count_before(bit),
            Err(_) => before,
        }
    }
}

/// Returns VMCOREINFO and its offset from where the sub-header says, or else from the note that
/// holds it, with the reason.
fn find_vmcoreinfo(part: &Part) -> (Option<(Vec<u8>, u64)>, Option<FormatError>) {
    let in_note = || {
        let notes = part.headers.notes();
        let note = notes.clone().vmcoreinfo().ok().flatten()?;
        let offset = notes.file_offset().saturating_add(note.desc_offset as u64);
        Some((note.desc.to_vec(), offset))
    };
    match part.headers.vmcoreinfo {
        Some((offset, size)) if size <= MAX_VMCOREINFO => {
            match part.bytes.read_vec_at("VMCOREINFO", offset, size) {
                Ok(text) => (Some((text, offset)), None),
                Err(error) => (in_note(), Some(error)),
            }
        }
        _ => (in_note(), None),
    }
}

/// Checks that the parts belong to one dump and have known codecs.
fn check_parts(parts: &[Part]) -> Result<(), SourceError> {
    let Some((first, rest)) = parts.split_first() else {
        return Err(SourceError::Unsupported {
            path: PathBuf::new(),
            reason: "no file was given".into(),
        });
    };
    let mut end = first.frames.end;
    for part in rest {
        let same = part.headers.end_frame == first.headers.end_frame
            && part.headers.block_size == first.headers.block_size
            && part.headers.endian == first.headers.endian
            && part.headers.layout.bitmap_size == first.headers.layout.bitmap_size
            && part.headers.utsname == first.headers.utsname;
        if !same || part.headers.split.is_none() || part.frames.start < end {
            return Err(SourceError::Unsupported {
                path: part.path.clone(),
                reason: format!(
                    "is not another part of the split dump {}",
                    first.path.display()
                ),
            });
        }
        end = part.frames.end;
    }
    Ok(())
}

/// Names that QEMU gives to most machines (ELF_MACHINE_UNAME), or that nobody wrote.
const NO_NAMES: [&str; 2] = ["Unknown", ""];

/// Determines the architecture by the name of the machine, or without one by the size of the
/// registers.
fn architecture(part: &Part) -> Result<&'static Architecture, SourceError> {
    let headers = &part.headers;
    let name = headers.utsname.machine();
    if let Ok(found) = arch::find(name) {
        return Ok(found);
    }
    let mut notes = headers.notes().intact();
    let registers = notes.find(|note| {
        NO_NAMES.contains(&name) && note.name == b"CORE" && note.n_type == note::NT_PRSTATUS
    });
    let found = registers.and_then(|note| arch::find_prstatus(note.desc.len(), headers.endian));
    found.ok_or_else(|| SourceError::Unsupported {
        path: part.path.clone(),
        reason: format!(
            "a dump of {name:?} (machine at offset 272); this build knows {}",
            arch::names()
        ),
    })
}
