//! What helpers do with memory: each a job of [`crate::engine::share`].
//!
//! Errors are those of the kernel for the slice that failed; what was done before
//! stays done, as with the kernel's own calls.

use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::engine::{Outcome, Settings, share, share_if_long};
use crate::mapping::Mapping;
use crate::region::{JobRegion, Region};

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

impl Access {
    /// How the kernel makes the pages of a mapping that it locks or populates: private memory
    /// that may be written becomes the process's own (populate_vma_page_range of mm/gup.c).
    pub fn of(mapping: &Mapping) -> Self {
        match mapping.writable && !mapping.shared {
            true => Self::Write,
            false => Self::Read,
        }
    }
}

/// Makes the pages of regions and maps them (MADV_POPULATE_READ, MADV_POPULATE_WRITE).
///
/// Errors: EINVAL where the kernel is older than 5.14 or a mapping cannot be populated,
/// ENOMEM where nothing is mapped or memory ends, EFAULT where touching it would raise a
/// signal, EHWPOISON for pages with a hardware error.
pub fn populate(regions: &mut [JobRegion], access: Access, settings: &Settings) -> Outcome {
    let advice = match access {
        Access::Read => Advice::LinuxPopulateRead,
        Access::Write => Advice::LinuxPopulateWrite,
    };
    share(regions, settings, |region| advise(region, advice))
}

/// Takes the page tables of shared mappings down; what they showed stays where it is, and
/// the next touch maps it again. Locked memory too, where the kernel can (5.18).
///
/// Of private mappings this loses the contents: see [`forget`].
pub fn unmap_pages(regions: &mut [JobRegion], settings: &Settings) -> Outcome {
    share_if_long(regions, settings, drop_pages)
}

/// Gives the pages of private anonymous memory back; it reads as zeros then.
pub fn forget(regions: &mut [JobRegion], settings: &Settings) -> Outcome {
    share_if_long(regions, settings, drop_pages)
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    /// Resident bytes of a mapping of its own.
    fn resident(region: Region) -> usize {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let head = format!("{:x}-", region.start());
        let (_, of_it) = smaps.split_once(&head).unwrap();
        let line = of_it.lines().find(|line| line.starts_with("Rss:")).unwrap();
        let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib << 10
    }

    #[test]
    fn page_tables_go_and_what_they_showed_stays() {
        const LENGTH: usize = 64 << 20;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), LENGTH, access, MapFlags::SHARED) };
        let at = at.unwrap();
        let region = Region::new(at.expose_provenance(), LENGTH).unwrap();
        // Nothing is there at first, then all, then the second half: helpers come never, at once, or late.
        for (part, made) in [(0, 0), (LENGTH, LENGTH), (LENGTH / 2, LENGTH / 2)] {
            let half = Region::new(region.start() + LENGTH - part, part).unwrap();
            populate(&mut [half.into()], Access::Read, &Settings::default());
            assert!(resident(region) >= made);
            // SAFETY: within the mapping.
            unsafe { at.cast::<u8>().add(LENGTH - 1).write(9) };
            let outcome = unmap_pages(&mut [region.into()], &Settings::default());
            assert_eq!((outcome.bytes, outcome.error), (LENGTH, None));
            assert_eq!(resident(region), 0);
            // SAFETY: within the mapping.
            assert_eq!(unsafe { at.cast::<u8>().add(LENGTH - 1).read() }, 9);
        }
        // SAFETY: this test's own.
        unsafe { munmap(at, LENGTH) }.unwrap();
    }
}
