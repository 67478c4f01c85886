//! Memory sources: files that hold the memory of a machine.

#[cfg(feature = "cache")]
mod buffer;
#[cfg(feature = "cache")]
mod cache;
mod device;
mod elf;
mod elf_reader;
mod encrypted;
mod file;
mod kdump;
#[cfg(feature = "cache")]
mod kdump_cached;
mod kdump_reader;
mod live;
mod mapping;
mod open;
mod pages;
mod stored;
mod vmdump;
#[cfg(feature = "cache")]
mod vmdump_cached;
mod vmdump_parts;
mod vmdump_reader;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::{LoadSegment, Notes, erase_info};
use bigiron_format::kdump::Utsname;
use bigiron_format::{PageFrame, VirtAddr};

use crate::error::SourceError;

pub use device::is_plain_dump;
pub use elf::ElfSource;
pub use encrypted::{Identities, decrypt, is_encrypted};
pub use file::{DumpFile, IoMethod};
pub use kdump::KdumpSource;
pub use live::RUNNING_KERNEL;
pub use open::Source;
pub use pages::SharedPages;
pub use stored::SeeStored;
pub use vmdump::{NotZero, VmdumpSource};
pub use vmdump_parts::VmdumpPart;

/// Page frames in a section: one block of a bitmap, and one mem_section of x86-64.
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
#[cfg(feature = "cache")]
fn parallel_readers() -> usize {
    let processors = std::thread::available_parallelism();
    processors.map_or(4, |count| count.get().clamp(4, 16))
}

/// The memory of a machine, by page frames.
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
    fn vmcoreinfo_note(&self) -> Option<&[u8]>;

    /// Records of what was erased before this file was written, one line each.
    fn erase_info(&self) -> &[u8] {
        erase_info::find(self.notes())
    }

    /// The system names, if the file has them.
    fn utsname(&self) -> Option<&Utsname> {
        None
    }

    /// The dump level already applied.
    fn dump_level(&self) -> u8 {
        0
    }

    /// Names of the codecs that compress its pages; empty if none does, several where each page
    /// has its own.
    fn codecs(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns true for the running kernel, whose memory changes while it is read.
    fn is_live(&self) -> bool {
        false
    }

    /// The reason why some memory is missing; `None` if all is present.
    fn damage(&self) -> Option<&str>;

    /// Sets the bits of the page frames that are RAM, in the section that starts at `first`.
    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError>;

    /// Sets the bits of the page frames whose data the file has.
    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError>;

    /// Returns the first page frame of the next section at or behind that of `first` that may
    /// have RAM.
    fn next_section(&self, first: PageFrame) -> Option<PageFrame>;

    /// The virtual address of a page frame according to the file's headers.
    fn virtual_address(&self, _frame: PageFrame) -> Option<VirtAddr> {
        None
    }

    /// The physical address of a virtual one according to the headers; used for the kernel
    /// image before page tables can be walked.
    fn segment_address(&self, _address: VirtAddr) -> Option<u64> {
        None
    }

    /// The segments of the headers, as listed: they may overlap where a page has two virtual
    /// addresses. Empty if there are none.
    fn header_segments(&self) -> &[LoadSegment] {
        &[]
    }

    /// The vmdump, if this is one: it can be checked beyond its pages.
    fn vmdump(&self) -> Option<&VmdumpSource> {
        None
    }

    /// Enables a cache of decompressed pages for all readers created from now on; see
    /// `Source::set_cache`.
    #[cfg(feature = "cache")]
    fn set_cache(&mut self, _bytes: u64) {}

    /// Statistics of the shared cache; `None` without one.
    fn cache_usage(&self) -> Option<CacheUsage> {
        None
    }

    /// Number of readers for random access by many threads: one, unless a shared cache provides
    /// memory for more.
    fn parallel_readers(&self) -> usize {
        1
    }

    /// Passes the stored size of each page in the section at `first` to `see`. A page
    /// compressed with others has its share; one stored once for several counts for each.
    /// Returns `false` where pages are stored uncompressed.
    fn stored(&self, _first: PageFrame, _see: &mut SeeStored<'_>) -> Result<bool, SourceError> {
        Ok(false)
    }

    /// Creates a reader for one helper.
    fn reader(&self, io: IoMethod) -> Box<dyn PageReader + '_>;
}

impl dyn MemorySource + '_ {
    /// The sections that may have RAM, in order: the first page frame of each.
    pub fn sections(&self) -> impl Iterator<Item = PageFrame> + '_ {
        std::iter::successors(self.next_section(PageFrame(0)), |first| {
            self.next_section(PageFrame(first.0 + SECTION_FRAMES))
        })
    }
}

/// Reads pages; each helper has its own.
pub trait PageReader: Send {
    /// Returns the bytes of page frames from `first` on: at least one page, at most `count`.
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError>;

    /// Like [`PageReader::pages`], but the result can be kept: bytes of the shared cache if
    /// there is one, otherwise a copy.
    fn shared(&mut self, first: PageFrame, count: usize) -> Result<SharedPages, SourceError> {
        self.pages(first, count).map(SharedPages::copy)
    }
}
