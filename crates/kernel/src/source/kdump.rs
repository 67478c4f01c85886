//! kdump-compressed files as a memory source: whole, split, flattened, complete or not.

use std::path::{Path, PathBuf};

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::codec::Codec;
use bigiron_format::elf::Notes;
use bigiron_format::kdump::{DESCRIPTOR_SIZE, KdumpHeaders, flags_of_codec};
use bigiron_format::{FormatError, PageFrame, PageFrameRange, ReadAt};

use super::file::IoMethod;
#[cfg(feature = "cache")]
use super::kdump_cached::{CachedKdumpReader, KdumpCache};
use super::kdump_reader::KdumpReader;
use super::{
    CacheUsage, Extensions, MemorySource, PageReader, SECTION_FRAMES, SeeStored, SharedAccess,
    SourceFacts, StoredSizes,
};
use crate::arch;
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
}

impl Part {
    fn error(&self, source: FormatError) -> SourceError {
        SourceError::Format {
            path: self.path.clone(),
            source,
        }
    }
}

/// A kdump-compressed dump.
pub struct KdumpSource {
    parts: Vec<Part>,
    /// Dumped pages by section, from the dumped bitmap.
    ranks: SectionRanks,
    vmcoreinfo: Option<Vec<u8>>,
    damage: Option<String>,
    #[cfg(feature = "cache")]
    cache: Option<KdumpCache>,
}

impl KdumpSource {
    /// Opens the files of one dump: one, or all parts of a split one.
    pub fn new(files: Vec<(Box<dyn ReadAt>, PathBuf)>) -> Result<Self, SourceError> {
        let mut parts = Vec::with_capacity(files.len());
        for (bytes, path) in files {
            let headers =
                KdumpHeaders::read(bytes.as_ref()).map_err(|source| SourceError::Format {
                    path: path.clone(),
                    source,
                })?;
            let end = headers.end_frame;
            let (start, stop) = headers.split.unwrap_or((0, end));
            let frames = PageFrameRange::new(start.min(end), stop.min(end));
            parts.push(Part {
                bytes,
                path,
                headers,
                frames,
                first_index: 0,
            });
        }
        parts.sort_by_key(|part| part.frames.start);
        check_parts(&parts)?;
        let first = &parts[0];
        let vmcoreinfo = match first.headers.vmcoreinfo {
            Some((offset, size)) if size <= MAX_VMCOREINFO => {
                let text = first.bytes.read_vec_at("VMCOREINFO", offset, size);
                Some(text.map_err(|error| first.error(error))?)
            }
            _ => {
                let note = first.headers.notes().vmcoreinfo().ok().flatten();
                note.map(|note| note.desc.to_vec())
            }
        };
        let mut source = Self {
            parts,
            ranks: SectionRanks::default(),
            vmcoreinfo,
            damage: None,
            #[cfg(feature = "cache")]
            cache: None,
        };
        source.count_pages()?;
        source.damage = source.find_damage();
        Ok(source)
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
        self.read_bits(self.head().layout.dumped_bitmap(), section, bits)?;
        Ok(self.ranks.before(section as usize))
    }

    /// See `Source::set_cache`.
    #[cfg(feature = "cache")]
    pub(super) fn set_cache(&mut self, bytes: u64) {
        self.cache = KdumpCache::new(bytes, self.page_shift());
    }

    fn codecs(&self) -> Vec<&'static str> {
        let flags = self.parts.iter().map(|part| part.headers.codec_flags);
        let flags = flags.fold(0, |all, flags| all | flags);
        let named = |codec: &Codec| flags_of_codec(*codec) & flags != 0;
        let codecs = Codec::ALL.into_iter().filter(named);
        codecs.map(Codec::name).collect()
    }

    pub(super) fn path(&self) -> &Path {
        &self.parts[0].path
    }

    fn head(&self) -> &KdumpHeaders {
        &self.parts[0].headers
    }

    fn sections(&self) -> u64 {
        self.head().end_frame.div_ceil(SECTION_FRAMES)
    }

    /// Reads the bits of one section from the bitmap at offset `bitmap`.
    fn read_bits(&self, bitmap: u64, section: u64, bits: &mut Bitmap) -> Result<(), SourceError> {
        bits.clear();
        let layout = &self.head().layout;
        let offset = section * SECTION_BYTES;
        let len = SECTION_BYTES.min(layout.bitmap_size.saturating_sub(offset)) as usize;
        let part = &self.parts[0];
        part.bytes
            .read_exact_at("a bitmap", bitmap + offset, &mut bits.as_bytes_mut()[..len])
            .map_err(|error| part.error(error))?;
        let frames = (self.head().end_frame - (section * SECTION_FRAMES).min(self.head().end_frame))
            .min(SECTION_FRAMES) as usize;
        bits.clear_range(frames, SECTION_FRAMES as usize);
        Ok(())
    }

    /// Counts dumped pages by section, so that any page's descriptor is found without reading
    /// the bitmap from its start.
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
        let mut bits = Bitmap::new(SECTION_FRAMES as usize);
        let mut counts = vec![0; self.sections() as usize];
        let mut next = self.next_used_section(layout.dumped_bitmap(), 0);
        while let Some(section) = next {
            self.read_bits(layout.dumped_bitmap(), section, &mut bits)?;
            counts[section as usize] = bits.count() as u16;
            next = self.next_used_section(layout.dumped_bitmap(), section + 1);
        }
        self.ranks = SectionRanks::new(counts);
        for index in 0..self.parts.len() {
            self.parts[index].first_index = self.rank(self.parts[index].frames.start);
        }
        Ok(())
    }

    /// Returns the first section from `section` on that may have a bit set in the bitmap at
    /// offset `bitmap`. A file may claim far more page frames than it has; the holes of a
    /// sparse file are skipped.
    fn next_used_section(&self, bitmap: u64, section: u64) -> Option<u64> {
        let bytes = &self.parts[0].bytes;
        let data = bytes.next_data(bitmap.saturating_add(section.saturating_mul(SECTION_BYTES)));
        let found = section.max(data.saturating_sub(bitmap) / SECTION_BYTES);
        (found < self.sections()).then_some(found)
    }

    /// Describes what is missing: the writer's own mark, a truncated file, an absent part.
    fn find_damage(&self) -> Option<String> {
        if let Some(part) = self.parts.iter().find(|part| part.headers.incomplete) {
            return Some(format!(
                "{} is marked incomplete (status at offset 424): its writer was interrupted",
                part.path.display()
            ));
        }
        for part in &self.parts {
            let pages = self.rank(part.frames.end) - part.first_index;
            let end = part.headers.layout.descriptors() + pages * DESCRIPTOR_SIZE as u64;
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

/// Checks that the parts belong to one dump and have known codecs.
fn check_parts(parts: &[Part]) -> Result<(), SourceError> {
    let Some((first, rest)) = parts.split_first() else {
        return Err(SourceError::Unsupported {
            path: PathBuf::new(),
            reason: "no file was given".into(),
        });
    };
    if arch::find(first.headers.utsname.machine()).is_err() {
        return Err(SourceError::Unsupported {
            path: first.path.clone(),
            reason: format!(
                "a dump of {:?} (machine at offset 272); this build knows {}",
                first.headers.utsname.machine(),
                arch::names()
            ),
        });
    }
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
        self.head().endian
    }

    fn machine(&self) -> &str {
        self.head().utsname.machine()
    }

    fn end_frame(&self) -> PageFrame {
        PageFrame(self.head().end_frame)
    }

    fn notes(&self) -> Notes<'_> {
        self.head().notes()
    }

    fn vmcoreinfo_note(&self) -> Option<&[u8]> {
        self.vmcoreinfo.as_deref()
    }

    fn facts(&self) -> SourceFacts<'_> {
        let head = self.head();
        SourceFacts {
            erase_info: &head.erase_info,
            utsname: Some(&head.utsname),
            dump_level: (head.dump_level & 31) as u8,
            codecs: self.codecs(),
            is_live: false,
            damage: self.damage.as_deref(),
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
        self.read_bits(
            self.head().layout.ram_bitmap(),
            first.0 / SECTION_FRAMES,
            bits,
        )
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
        let bitmap = self.head().layout.ram_bitmap();
        let section = self.next_used_section(bitmap, first.0 / SECTION_FRAMES)?;
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

impl StoredSizes for KdumpSource {
    fn stored(&self, first: PageFrame, see: &mut SeeStored<'_>) -> Result<(), SourceError> {
        self.stored_in(first, see)
    }
}

impl SharedAccess for KdumpSource {
    #[cfg(feature = "cache")]
    fn cache_usage(&self) -> Option<CacheUsage> {
        self.cache.as_ref().map(KdumpCache::usage)
    }

    #[cfg(not(feature = "cache"))]
    fn cache_usage(&self) -> Option<CacheUsage> {
        None
    }

    #[cfg(feature = "cache")]
    fn parallel_readers(&self) -> usize {
        self.cache.as_ref().map_or(1, |_| super::parallel_readers())
    }

    #[cfg(not(feature = "cache"))]
    fn parallel_readers(&self) -> usize {
        1
    }
}
