//! Memory sources: files that hold the memory of a machine.

#[cfg(feature = "cache")]
mod buffer;
#[cfg(feature = "cache")]
mod cache;
mod damaged_chunks;
mod device;
mod elf;
mod elf_memory;
mod elf_reader;
mod encrypted;
mod file;
mod identity;
mod images;
mod kdump;
mod kdump_bitmaps;
mod kdump_blocks;
#[cfg(feature = "cache")]
mod kdump_cache;
#[cfg(feature = "cache")]
mod kdump_cached;
mod kdump_memory;
mod kdump_reader;
mod live;
mod mapping;
mod open;
mod pages;
mod run_length;
mod stored;
mod vmdump;
#[cfg(feature = "cache")]
mod vmdump_cached;
mod vmdump_memory;
mod vmdump_parts;
mod vmdump_reader;
mod windows;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::dump_level::LeftOut;
use bigiron_format::elf::{LoadSegment, Notes, dump_level, erase_info};
use bigiron_format::kdump::Utsname;
use bigiron_format::{PageFrame, VirtAddr};

use crate::error::SourceError;

pub use device::is_plain_dump;
pub use elf::ElfSource;
pub use encrypted::{Identities, MAX_RECIPIENTS, decrypt, is_encrypted};
pub use file::{DumpFile, IoMethod};
pub use images::with_file_beside;
pub use kdump::KdumpSource;
pub use live::RUNNING_KERNEL;
pub use open::Source;
pub use pages::SharedPages;
pub use vmdump::{NotZero, VmdumpSource};
pub use vmdump_parts::VmdumpPart;

/// Page frames in a section: one block of a bitmap of 4 KiB pages, and one mem_section of x86-64.
/// It is the same for all page sizes.
pub const SECTION_FRAMES: u64 = 32 << 10;

/// Statistics of a shared cache; see `Source::set_cache`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Maximum size, in bytes.
    pub size: u64,
    /// Bytes of all decompressed pages: cached, held by readers, and in free buffers.
    pub bytes: u64,
    /// Peak of `bytes`.
    pub peak_bytes: u64,
    /// Number of decompressions because of cache misses.
    pub unpacked: u64,
}

/// Maximum number of readers for one consumer with many threads, for a dump with a shared
/// cache: more would take memory without being faster.
fn parallel_readers() -> usize {
    let processors = std::thread::available_parallelism();
    processors.map_or(4, |count| count.get().clamp(4, 16))
}

/// The memory of a machine, by page frames.
///
/// The methods are those that every source implements in its own way. What only some sources
/// know is in [`SourceFacts`], and what only some can do in [`Extensions`]; both have accessors
/// on `dyn MemorySource`.
pub trait MemorySource: Send + Sync {
    /// Kind of the file, for messages.
    fn kind(&self) -> &'static str;

    /// log2 of the page size.
    fn page_shift(&self) -> u32;

    /// Byte order of the machine.
    fn endian(&self) -> Endian;

    /// Architecture, as printed by `uname -m`.
    fn machine(&self) -> &str;

    /// The page frame after the highest one of RAM.
    fn end_frame(&self) -> PageFrame;

    /// The ELF notes.
    fn notes(&self) -> Notes<'_>;

    /// VMCOREINFO, if the file locates it.
    fn vmcoreinfo_note(&self) -> Option<NotedText<'_>>;

    /// Facts that not every source has.
    fn facts(&self) -> SourceFacts<'_> {
        SourceFacts::from_notes(self.notes())
    }

    /// Operations that not every source has.
    fn extensions(&self) -> Extensions<'_> {
        Extensions::default()
    }

    /// Sets the bits of the page frames that are RAM, in the section that starts at `first`.
    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError>;

    /// Sets the bits of the page frames whose data the file has.
    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError>;

    /// Returns the first page frame of the next section at or behind that of `first` that may
    /// have RAM.
    fn next_section(&self, first: PageFrame) -> Option<PageFrame>;

    /// Creates a reader for one helper.
    fn reader(&self, io: IoMethod) -> Box<dyn PageReader + '_>;
}

/// The text of VMCOREINFO in a note.
#[derive(Clone, Copy, Debug)]
pub struct NotedText<'a> {
    /// The text, unchecked. Zeros may follow it.
    pub text: &'a [u8],
    /// Offset of the text in the file.
    pub offset: u64,
}

/// Facts about a source that not every kind of source has.
#[derive(Clone, Debug, Default)]
pub struct SourceFacts<'a> {
    /// Records of what was erased before this file was written, one line each.
    pub erase_info: &'a [u8],
    /// The system names, if the file has them.
    pub utsname: Option<&'a Utsname>,
    /// The dump level already applied; `None` where the file does not record it.
    pub dump_level: Option<u8>,
    /// Struct pages of excluded page frames were left out already.
    pub lacks_struct_pages: bool,
    /// Names of the codecs that compress its pages; empty if none does, several where each page
    /// has its own.
    pub codecs: Vec<&'static str>,
    /// True for the running kernel, whose memory changes while it is read.
    pub is_live: bool,
    /// The reason why some memory is missing; `None` if all is present.
    pub damage: Option<&'a str>,
    /// CR3 of each CPU of an x86-64 machine, where a kernel other than the first one may have run.
    pub page_tables: &'a [u64],
    /// Something wrong in the file that takes no memory away.
    pub warning: Option<&'a str>,
    /// Number of page frames whose data the file has, as the file states it, unchecked; `None`
    /// where it does not.
    pub stated_pages: Option<u64>,
}

impl<'a> SourceFacts<'a> {
    /// The facts that ELF notes contain: the erase info, and what is left out.
    pub fn from_notes(notes: Notes<'a>) -> Self {
        let left_out = dump_level::find(notes.clone());
        Self {
            erase_info: erase_info::find(notes),
            dump_level: left_out.map(|found| found.level),
            lacks_struct_pages: left_out.is_some_and(|found| found.struct_pages),
            ..Self::default()
        }
    }
}

/// Operations of a source that not every kind of source has; `None` where it lacks them.
#[derive(Clone, Copy, Default)]
pub struct Extensions<'a> {
    /// Virtual addresses in the file's headers.
    pub header_addresses: Option<&'a dyn HeaderAddresses>,
    /// Stored sizes of pages, if they are compressed.
    pub stored_sizes: Option<&'a dyn StoredSizes>,
    /// Random access by many threads.
    pub shared_access: Option<&'a dyn SharedAccess>,
    /// The vmdump, if this is one: it can be checked beyond its pages.
    pub vmdump: Option<&'a VmdumpSource>,
}

/// A source whose headers assign virtual addresses to memory.
pub trait HeaderAddresses {
    /// The virtual address of a page frame.
    fn virtual_address(&self, frame: PageFrame) -> Option<VirtAddr>;

    /// The physical address of a virtual one; used for the kernel image before page tables can
    /// be walked.
    fn segment_address(&self, _address: VirtAddr) -> Option<u64> {
        None
    }

    /// The segments as listed: they may overlap where a page has two virtual addresses.
    fn header_segments(&self) -> &[LoadSegment] {
        &[]
    }
}

/// Receives a stored page frame and its size in the file, in bytes.
pub type SeeStored<'v> = dyn FnMut(PageFrame, u64) + 'v;

/// A source with compressed pages.
pub trait StoredSizes {
    /// Passes the stored size of each page in the section at `first` to `see`. A page
    /// compressed with others has its share; one stored once for several counts for each.
    fn stored(&self, first: PageFrame, see: &mut SeeStored<'_>) -> Result<(), SourceError>;
}

/// A source that several threads may read at random; see `Source::set_cache`.
pub trait SharedAccess {
    /// Statistics of the shared cache; `None` without one.
    fn cache_usage(&self) -> Option<CacheUsage> {
        None
    }

    /// Number of readers for random access by many threads: one without a shared cache.
    fn parallel_readers(&self) -> usize {
        match self.cache_usage() {
            Some(_) => parallel_readers(),
            None => 1,
        }
    }
}

impl dyn MemorySource + '_ {
    /// The sections that may have RAM, in order: the first page frame of each.
    pub fn sections(&self) -> impl Iterator<Item = PageFrame> + '_ {
        self.sections_from(PageFrame(0))
    }

    /// As `sections`, from the section of `frame` on.
    pub fn sections_from(&self, frame: PageFrame) -> impl Iterator<Item = PageFrame> + '_ {
        std::iter::successors(self.next_section(frame), |first| {
            self.next_section(PageFrame(first.0.checked_add(SECTION_FRAMES)?))
        })
    }

    /// See [`SourceFacts::erase_info`].
    pub fn erase_info(&self) -> &[u8] {
        self.facts().erase_info
    }

    /// See [`SourceFacts::utsname`].
    pub fn utsname(&self) -> Option<&Utsname> {
        self.facts().utsname
    }

    /// See [`SourceFacts::dump_level`]; 0 where the file does not record it.
    pub fn dump_level(&self) -> u8 {
        self.facts().dump_level.unwrap_or(0)
    }

    /// See [`SourceFacts::lacks_struct_pages`].
    pub fn lacks_struct_pages(&self) -> bool {
        self.facts().lacks_struct_pages
    }

    /// What was left out already; `None` where the file does not record it.
    pub fn left_out(&self) -> Option<LeftOut> {
        let facts = self.facts();
        facts.dump_level.map(|level| LeftOut {
            level,
            struct_pages: facts.lacks_struct_pages,
        })
    }

    /// See [`SourceFacts::codecs`].
    pub fn codecs(&self) -> Vec<&'static str> {
        self.facts().codecs
    }

    /// See [`SourceFacts::is_live`].
    pub fn is_live(&self) -> bool {
        self.facts().is_live
    }

    /// See [`SourceFacts::damage`].
    pub fn damage(&self) -> Option<&str> {
        self.facts().damage
    }

    /// See [`SourceFacts::warning`].
    pub fn warning(&self) -> Option<&str> {
        self.facts().warning
    }

    /// See [`HeaderAddresses::virtual_address`].
    pub fn virtual_address(&self, frame: PageFrame) -> Option<VirtAddr> {
        self.extensions().header_addresses?.virtual_address(frame)
    }

    /// See [`HeaderAddresses::segment_address`].
    pub fn segment_address(&self, address: VirtAddr) -> Option<u64> {
        self.extensions().header_addresses?.segment_address(address)
    }

    /// See [`HeaderAddresses::header_segments`]; empty if there are none.
    pub fn header_segments(&self) -> &[LoadSegment] {
        let addresses = self.extensions().header_addresses;
        addresses.map_or(&[], HeaderAddresses::header_segments)
    }

    /// See [`StoredSizes::stored`]. Returns `false` where pages are stored uncompressed.
    pub fn stored(&self, first: PageFrame, see: &mut SeeStored<'_>) -> Result<bool, SourceError> {
        match self.extensions().stored_sizes {
            Some(sizes) => sizes.stored(first, see).map(|()| true),
            None => Ok(false),
        }
    }

    /// See [`SharedAccess::cache_usage`].
    pub fn cache_usage(&self) -> Option<CacheUsage> {
        self.extensions().shared_access?.cache_usage()
    }

    /// See [`SharedAccess::parallel_readers`]; one where readers have no memory to share.
    pub fn parallel_readers(&self) -> usize {
        let access = self.extensions().shared_access;
        access.map_or(1, SharedAccess::parallel_readers)
    }

    /// See [`Extensions::vmdump`].
    pub fn vmdump(&self) -> Option<&VmdumpSource> {
        self.extensions().vmdump
    }
}

/// Reads pages; each helper has its own.
pub trait PageReader: Send {
    /// Returns the bytes of page frames from `first` on: at least one page, at most `count`.
    ///
    /// # Errors
    /// The first page cannot be read. Those that follow may be readable.
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError>;

    /// Like [`PageReader::pages`], but fills `buf`, which is as long as `count` pages, from its
    /// start; returns the number of bytes.
    fn copy_pages(
        &mut self,
        first: PageFrame,
        count: usize,
        buf: &mut [u8],
    ) -> Result<usize, SourceError> {
        let pages = self.pages(first, count)?;
        buf[..pages.len()].copy_from_slice(pages);
        Ok(pages.len())
    }

    /// Like [`PageReader::pages`], but the result can be kept: bytes of the shared cache if
    /// there is one, otherwise a copy.
    fn shared(&mut self, first: PageFrame, count: usize) -> Result<SharedPages, SourceError> {
        self.pages(first, count).map(SharedPages::copy)
    }
}
