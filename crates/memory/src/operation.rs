//! What helpers do with memory: each a job of [`crate::engine::share`].
//!
//! Errors are those of the kernel for the chunk that failed; what was done before
//! stays done, as with the kernel's own calls.

use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::engine::{Outcome, Settings, share};
use crate::region::{Piece, Region};

/// How pages are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As by reading: for shared memory. On shared memory of the kernel's own (SysV,
    /// POSIX, memfd, hugetlbfs) that makes pages which can be written, and maps neighbours
    /// that are there already together. A hole in a file stays one.
    Read,
    /// As by writing: for private memory. What is shared becomes the process's own.
    Write,
}

/// Makes the pages of regions and maps them (MADV_POPULATE_READ, MADV_POPULATE_WRITE).
///
/// Errors: EINVAL where the kernel is older than 5.14 or a mapping cannot be populated,
/// ENOMEM where nothing is mapped or memory ends, EFAULT where touching it would raise a
/// signal, EHWPOISON for pages with a hardware error.
pub fn populate(pieces: &mut [Piece], access: Access, settings: &Settings) -> Outcome {
    let advice = match access {
        Access::Read => Advice::LinuxPopulateRead,
        Access::Write => Advice::LinuxPopulateWrite,
    };
    share(pieces, settings, |region| advise(region, advice))
}

/// Takes the page tables of shared mappings down; what they showed stays where it is, and
/// the next touch maps it again. Locked memory too, where the kernel can (5.18).
///
/// Of private mappings this loses the contents: see [`forget`].
pub fn unmap_pages(pieces: &mut [Piece], settings: &Settings) -> Outcome {
    share(pieces, settings, drop_pages)
}

/// Gives the pages of private anonymous memory back; it reads as zeros then.
pub fn forget(pieces: &mut [Piece], settings: &Settings) -> Outcome {
    share(pieces, settings, drop_pages)
}

fn drop_pages(region: Region) -> Result<(), Errno> {
    match advise(region, Advice::LinuxDontNeed) {
        // Refused for locked memory (madvise_dontneed_free_valid_vma of mm/madvise.c).
        Err(Errno::INVAL) => advise(region, Advice::LinuxDontneedLocked),
        other => other,
    }
}

/// Asks for huge pages, where the system leaves that to programs. Whether any come is
/// not an error.
pub fn want_huge_pages(region: Region) {
    let _ = advise(region, Advice::LinuxHugepage);
}

/// One call of `madvise`.
///
/// Whoever advises on memory that is not its own must know that it is in no use that the
/// advice would break.
pub fn advise(region: Region, advice: Advice) -> Result<(), Errno> {
    // SAFETY: the advices of this module change what a process sees only in `forget`,
    // whose callers end the use of the memory with it.
    unsafe { madvise(region.pointer(), region.length(), advice) }
}
