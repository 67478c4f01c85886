//! Operations of the helpers on memory, each a job of [`crate::engine::share`].
//!
//! Errors are the kernel's errors for the slice that failed. Completed work remains, as with
//! the kernel's own calls.

use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::engine::{Outcome, Settings, share, share_if_long};
use crate::mapping::Mapping;
use crate::region::{JobRegion, Region};

/// Kind of access for which pages are populated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As by reading: for shared memory. In the kernel's own shared memory (SysV, POSIX, memfd,
    /// hugetlbfs) this allocates writable pages, and also maps neighbouring pages that already
    /// exist. A hole in a file stays a hole.
    Read,
    /// As by writing: for private memory. Shared pages become the process's own.
    Write,
}

impl Access {
    /// Returns the access for which the kernel populates a mapping that it locks or populates:
    /// private writable memory becomes the process's own (populate_vma_page_range of mm/gup.c).
    pub fn of(mapping: &Mapping) -> Self {
        match mapping.writable && !mapping.shared {
            true => Self::Write,
            false => Self::Read,
        }
    }
}

/// Populates regions (MADV_POPULATE_READ, MADV_POPULATE_WRITE).
///
/// Errors: EINVAL if the kernel is older than 5.14 or a mapping cannot be populated, ENOMEM if
/// a part is not mapped or memory is exhausted, EFAULT if access to the memory would raise a
/// signal, EHWPOISON for pages with a hardware error.
pub fn populate(regions: &mut [JobRegion], access: Access, settings: &Settings) -> Outcome {
    let advice = match access {
        Access::Read => Advice::LinuxPopulateRead,
        Access::Write => Advice::LinuxPopulateWrite,
    };
    share(regions, settings, |region| advise(region, advice))
}

/// Tears down the page tables of shared mappings. The pages stay, and the next access maps them
/// again. Includes locked memory if the kernel supports that (5.18).
///
/// On private mappings this loses the contents: see [`forget`].
pub fn unmap_pages(regions: &mut [JobRegion], settings: &Settings) -> Outcome {
    share_if_long(regions, settings, drop_pages)
}

/// Frees the pages of private anonymous memory, which then reads as zeros.
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

/// Requests huge pages where the system leaves that to programs. A lack of huge pages is not an
/// error.
pub fn want_huge_pages(region: Region) {
    let _ = advise(region, Advice::LinuxHugepage);
}

/// Calls `madvise` once.
///
/// For memory that others use, the caller must ensure that the advice does not break that use.
pub fn advise(region: Region, advice: Advice) -> Result<(), Errno> {
    // SAFETY: of this module's advices only the one of `forget` changes visible contents; its
    // callers no longer use the memory afterwards.
    unsafe { madvise(region.pointer(), region.length(), advice) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    /// Returns the resident bytes of a region that is exactly one mapping.
    fn resident(region: Region) -> usize {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let head = format!("{:x}-", region.start());
        let (_, of_it) = smaps.split_once(&head).unwrap();
        let line = of_it.lines().find(|line| line.starts_with("Rss:")).unwrap();
        let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib << 10
    }

    #[test]
    fn page_tables_are_freed_and_contents_stay() {
        const LENGTH: usize = 64 << 20;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), LENGTH, access, MapFlags::SHARED) };
        let at = at.unwrap();
        let region = Region::new(at.expose_provenance(), LENGTH).unwrap();
        // At first no page is resident, then all are, then the second half: helpers never
        // start, start at once, or start late.
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
        // SAFETY: this test's own mapping.
        unsafe { munmap(at, LENGTH) }.unwrap();
    }
}
