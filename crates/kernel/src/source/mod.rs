//! Files that hold the memory of a machine.

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
use bigiron_format::elf::{LoadSegment, erase_info};
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

/// Page frames that are looked at together: one block of a bitmap, and one
/// memory section of x86-64.
pub const CHUNK_FRAMES: u64 = 32 << 10;

/// What a shared cache did so far; see `Source::set_cache`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// The bytes that it may take.
    pub size: u64,
    /// The bytes of decompressed pages that there are: in the cache, in the hands of
    /// readers, and of buffers to be filled anew.
    pub bytes: u64,
    /// The most that there ever were at a time.
    pub peak_bytes: u64,
    /// How often something was decompressed, since it was not there.
    pub unpacked: u64,
}

/// Readers that one consumer with many threads has at most, of a dump with a shared
/// cache: more would take memory, and not be faster.
#[cfg(feature = "cache")]
fn parallel_readers() -> usize {
    let processors = std::thread::available_parallelism();
    processors.map_or(4, |count| count.get().clamp(4, 16))
}

/// The memory of a machine, by page frames.
pub trait MemorySource: Send + Sync {
    /// What kind of file it is, for people.
    fn kind(&self) -> &'static str;

    /// log2 of the page size.
    fn page_shift(&self) -> u32;

    /// The byte order of the machine.
    fn endian(&self) -> Endian;

    /// The architecture's name, as `uname -m` says it.
    fn machine(&self) -> &str;

    /// The page frame behind the highest one of RAM.
    fn end_frame(&self) -> PageFrame;

    /// The ELF notes.
    fn notes(&self) -> &[u8];

    /// VMCOREINFO, if the file says where it is.
    fn vmcoreinfo_note(&self) -> Option<&[u8]>;

    /// What was erased before this file was written, a line for each.
    fn erase_info(&self) -> &[u8] {
        erase_info::find(self.notes(), self.endian())
    }

    /// The system's names, if the file has them.
    fn utsname(&self) -> Option<&Utsname> {
        None
    }

    /// The dump level that was applied already.
    fn dump_level(&self) -> u8 {
        0
    }

    /// What its pages are compressed by, by name; none if by nothing. Several where
    /// each page says for itself.
    fn codecs(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether it changes while it is read: it is the running kernel's.
    fn is_live(&self) -> bool {
        false
    }

    /// Why some memory that should be there is not; `None` if all is.
    fn damage(&self) -> Option<&str>;

    /// Sets the bits of the page frames that are RAM, of the chunk that
    /// begins with `first`.
    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError>;

    /// Sets the bits of the page frames that the file has data of.
    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError>;

    /// The next chunk at or behind the one of `first` that may have RAM: its
    /// first page frame.
    fn next_chunk(&self, first: PageFrame) -> Option<PageFrame>;

    /// The virtual address that the file's headers give to a page frame.
    fn virtual_address(&self, _frame: PageFrame) -> Option<VirtAddr> {
        None
    }

    /// The physical address that the headers give to a virtual one; for the
    /// kernel's image, whose mapping cannot yet be walked.
    fn segment_address(&self, _address: VirtAddr) -> Option<u64> {
        None
    }

    /// The segments that the headers list, as they list them: they may overlap,
    /// where a page has two virtual addresses. Empty if there are none.
    fn header_segments(&self) -> &[LoadSegment] {
        &[]
    }

    /// The vmdump, if it is one: it can be checked beyond its pages.
    fn vmdump(&self) -> Option<&VmdumpSource> {
        None
    }

    /// Keeps decompressed pages for all readers that are made from now on; see
    /// `Source::set_cache`.
    #[cfg(feature = "cache")]
    fn set_cache(&mut self, _bytes: u64) {}

    /// What the shared cache did; `None` if there is none.
    fn cache_usage(&self) -> Option<CacheUsage> {
        None
    }

    /// How many readers somebody should have who reads at random by many threads. One,
    /// unless a shared cache says that there is memory for more.
    fn parallel_readers(&self) -> usize {
        1
    }

    /// Tells `see` how many bytes of the file each page has that the file has data
    /// of, in the chunk that begins with `first`. A page that is compressed with
    /// others has its share; one that is stored once for several counts for each.
    /// `false` where pages lie in the file as they are.
    fn stored(&self, _first: PageFrame, _see: &mut SeeStored<'_>) -> Result<bool, SourceError> {
        Ok(false)
    }

    /// A reader of its own for one helper.
    fn reader(&self, io: IoMethod) -> Box<dyn PageReader + '_>;
}

impl dyn MemorySource + '_ {
    /// The chunks that may have RAM, in order: the first page frame of each.
    pub fn chunks(&self) -> impl Iterator<Item = PageFrame> + '_ {
        std::iter::successors(self.next_chunk(PageFrame(0)), |chunk| {
            self.next_chunk(PageFrame(chunk.0 + CHUNK_FRAMES))
        })
    }
}

/// Reads pages; each helper has its own.
pub trait PageReader: Send {
    /// The bytes of page frames from `first` on: at least one page, at most `count`.
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError>;

    /// The same, to be kept: the cache's own bytes where there is a shared one, else
    /// a copy.
    fn shared(&mut self, first: PageFrame, count: usize) -> Result<SharedPages, SourceError> {
        self.pages(first, count).map(SharedPages::copy)
    }
}
