//! Shared memory in huge pages, even if the system's settings do not provide them.
//!
//! Shared memory has huge pages only as specified by
//! /sys/kernel/mm/transparent_hugepage/shmem_enabled, by default `never`. MADV_COLLAPSE (for
//! shared memory since Linux 6.1) creates them regardless of that setting, except for `deny`
//! (shmem_huge_global_enabled of mm/shmem.c; Documentation/admin-guide/mm/transhuge.rst). It
//! joins existing pages: a block without any page stays empty, while a block with one page and
//! 511 holes becomes a huge page that is allocated and zeroed (collapse_file of
//! mm/khugepaged.c).

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::param::page_size;

use crate::engine::{Outcome, Settings, share};
use crate::operation::{Access, advise, want_huge_pages};
use crate::region::{JobRegion, Region};

/// Size of a huge page at the second level of the page tables, with base pages of 4 KiB.
pub const HUGE_PAGE: usize = 2 << 20;

/// Collapses small pages into huge ones (include/uapi/asm-generic/mman-common.h); the crate libc
/// lacks it for musl.
const MADV_COLLAPSE: libc::c_int = 25;

/// Minimum size of one collapse call. Each call waits until all processors have drained their
/// pending pages (lru_add_drain_all in madvise_collapse), which takes tens of milliseconds on a
/// busy machine.
const MIN_SLICE: usize = 64 << 20;
/// Maximum size of one collapse call; beyond it the wait no longer matters.
const MAX_SLICE: usize = 256 << 20;
/// Number of slices per helper, so that all helpers end at about the same time.
const SLICES_PER_HELPER: usize = 4;

/// Populates shared mappings as [`crate::operation::populate`] does, in huge pages as far as
/// the kernel has some: by its settings, or else by collapsing. Only 2 MiB blocks that are also
/// at multiples of 2 MiB in this process's address space become huge (see [`reserve`]). Blocks
/// that already have pages stay as they are.
///
/// Errors are those of populating. A lack of huge pages is not an error.
pub fn populate(regions: &mut [JobRegion], access: Access, settings: &Settings) -> Outcome {
    let pages = match access {
        Access::Read => Advice::LinuxPopulateRead,
        Access::Write => Advice::LinuxPopulateWrite,
    };
    let bytes: usize = regions.iter().map(|region| region.region().length()).sum();
    let each = bytes / (settings.helpers.max(1) * SLICES_PER_HELPER);
    let slice = each.clamp(MIN_SLICE, MAX_SLICE).next_power_of_two();
    let settings = Settings {
        slice: slice.max(settings.slice),
        ..*settings
    };
    regions
        .iter()
        .for_each(|region| want_huge_pages(region.region()));
    let refused = AtomicBool::new(page_size() != 4 << 10);
    share(regions, &settings, |region| {
        if !refused.load(Ordering::Relaxed) && collapse(region, pages).is_err() {
            refused.store(true, Ordering::Relaxed);
        }
        advise(region, pages)
    })
}

/// Populates the blocks in `region` with huge pages, unless the kernel already does so by its
/// settings.
fn collapse(region: Region, pages: Advice) -> Result<(), Errno> {
    let blocks = blocks(region);
    if blocks.is_empty() {
        return Ok(());
    }
    let page = page_size();
    for start in (blocks.start()..blocks.end()).step_by(HUGE_PAGE) {
        // Each block is given a different page: the huge page is allocated on the node of this
        // page (hpage_collapse_find_target_node), and interleaving depends on the page's
        // number.
        let at = start / HUGE_PAGE * page % HUGE_PAGE;
        let one = |at: usize| Region::between(start + at, start + at + page);
        advise(one(at), pages)?;
        if start == blocks.start() && is_resident(one(at ^ page)) {
            return Ok(());
        }
    }
    // SAFETY: the contents of the memory do not change. A bare thread may call this (rustix
    // lacks this advice; the C library's wrapper touches only the caller's errno).
    let status = unsafe { libc::madvise(blocks.pointer(), blocks.length(), MADV_COLLAPSE) };
    if status == 0 {
        Ok(())
    } else {
        Err(Errno::NOMEM)
    }
}

/// Returns the part of a region that consists of whole blocks.
fn blocks(region: Region) -> Region {
    let start = region.start().saturating_add(HUGE_PAGE - 1) & !(HUGE_PAGE - 1);
    Region::between(start, region.end() & !(HUGE_PAGE - 1))
}

/// True if a page of shared memory is resident, or if the kernel does not report it.
fn is_resident(page: Region) -> bool {
    let mut resident = 1_u8;
    // SAFETY: the kernel writes one byte for one page.
    unsafe { libc::mincore(page.pointer(), page.length(), &mut resident) };
    resident & 1 == 1
}

/// Reserves `length` bytes of addresses from a multiple of 2 MiB, to be mapped over with
/// MAP_FIXED or SHM_REMAP. `length` is a multiple of the page size and not 0.
///
/// Errors: ENOMEM if the address space has not enough room.
pub fn reserve(length: usize) -> Result<Region, Errno> {
    let room = length.checked_add(HUGE_PAGE).ok_or(Errno::NOMEM)?;
    // SAFETY: a new mapping, at an address chosen by the kernel.
    let base = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            room,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }?;
    let all = Region::new(base.addr(), room).ok_or(Errno::NOMEM)?;
    let start = blocks(all).start();
    let wanted = Region::between(start, start + length);
    for rest in [
        Region::between(all.start(), wanted.start()),
        Region::between(wanted.end(), all.end()),
    ] {
        if !rest.is_empty() {
            // SAFETY: an unused part of the mapping above.
            unsafe { munmap(rest.pointer(), rest.length()) }?;
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps the kernel's shared memory at `region`.
    fn map_shared(region: Region) {
        // SAFETY: over addresses that `reserve` returned to this test.
        unsafe {
            mmap_anonymous(
                region.pointer(),
                region.length(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED,
            )
        }
        .unwrap();
    }

    fn field(region: Region, name: &str) -> usize {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let head = format!("{:x}-", region.start());
        let (_, of_it) = smaps.split_once(&head).unwrap();
        let line = of_it.lines().find(|line| line.starts_with(name)).unwrap();
        let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib << 10
    }

    #[test]
    fn reserved_addresses_are_aligned_and_exact() {
        let region = reserve(HUGE_PAGE + 4096).unwrap();
        assert_eq!(region.start() % HUGE_PAGE, 0);
        assert_eq!(crate::mapping::at(region.start()).unwrap().region, region);
        // SAFETY: this test's own mapping.
        unsafe { munmap(region.pointer(), region.length()) }.unwrap();
    }

    #[test]
    fn whole_blocks_become_huge_and_all_pages_are_resident() {
        let length = 9 * HUGE_PAGE + 3 * 4096;
        let region = reserve(length).unwrap();
        map_shared(region);
        let byte = region.pointer().cast::<u8>();
        // SAFETY: within the mapping; a block with a page keeps its contents.
        unsafe { byte.add(HUGE_PAGE + 5000).write(7) };
        let outcome = populate(&mut [region.into()], Access::Read, &Settings::default());
        assert_eq!(outcome.error, None);
        assert_eq!(field(region, "Rss:"), length);
        // SAFETY: within the mapping.
        assert_eq!(unsafe { byte.add(HUGE_PAGE + 5000).read() }, 7);
        let huge = field(region, "ShmemPmdMapped:");
        if huge == 0 {
            eprintln!("skipped: no huge pages for shared memory (before Linux 6.1, or denied)");
        } else {
            assert_eq!(huge, 9 * HUGE_PAGE);
        }
        // SAFETY: this test's own mapping.
        unsafe { munmap(region.pointer(), region.length()) }.unwrap();
    }

    #[test]
    fn unaligned_memory_uses_small_pages() {
        let reserved = reserve(3 * HUGE_PAGE).unwrap();
        let region = Region::between(reserved.start() + 4096, reserved.end());
        map_shared(region);
        let outcome = populate(&mut [region.into()], Access::Write, &Settings::default());
        assert_eq!(outcome.error, None);
        assert_eq!(field(region, "Rss:"), region.length());
        assert_eq!(field(region, "ShmemPmdMapped:"), 0);
        // SAFETY: this test's own mapping.
        unsafe { munmap(reserved.pointer(), reserved.length()) }.unwrap();
    }
}
