//! Shared memory in huge pages, even if the system's settings do not provide them.
//!
//! Shared memory has huge pages only as specified by
//! /sys/kernel/mm/transparent_hugepage/shmem_enabled, by default `never`. MADV_COLLAPSE (for
//! shared memory since Linux 6.1) creates them regardless of that setting, except for `deny`
//! (shmem_huge_global_enabled of mm/shmem.c; Documentation/admin-guide/mm/transhuge.rst). It
//! joins existing pages: a block without any page stays empty, while a block with one page and
//! holes otherwise becomes a huge page that is allocated and zeroed (collapse_file of
//! mm/khugepaged.c).

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::param::page_size;

use crate::engine::{Outcome, Settings, share};
use crate::machine::read_text;
use crate::operation::{Access, advise, want_huge_pages};
use crate::region::{JobRegion, Region};

/// Size that is assumed for a kernel without transparent huge pages: that of most machines.
const USUAL: usize = 2 << 20;
/// Maximum size that is believed: above it no kernel has one (1 GiB is the third level of 4 KiB
/// pages).
const MOST: usize = 1 << 30;

/// Returns the size in bytes of the huge pages that the kernel chooses itself: those at the
/// second level of the page tables. 2 MiB with pages of 4 KiB; on arm64 32 MiB with pages of
/// 16 KiB and 512 MiB with 64 KiB; on Power 2 MiB (radix) or 16 MiB (hash); 1 MiB on s390x. It
/// is a power of two. Can be called by bare threads and with all signals blocked.
///
/// The kernel's value (hpage_pmd_size, since Linux 4.11) is read once per process.
pub fn huge_page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Ordering::Relaxed) {
        0 => {
            let size = transparent().unwrap_or(USUAL);
            SIZE.store(size, Ordering::Relaxed);
            size
        }
        size => size,
    }
}

/// Returns the size of transparent huge pages; `None` if the kernel has none.
pub fn transparent() -> Option<usize> {
    let mut text = [0; 32];
    let path = c"/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
    parse_size(read_text(path, &mut text).ok()?, page_size())
}

/// Returns the size in the text of hpage_pmd_size, of a kernel with pages of `page` bytes; `None`
/// if no kernel has such huge pages.
pub(crate) fn parse_size(text: &str, page: usize) -> Option<usize> {
    let size: usize = text.trim_end().parse().ok()?;
    (size.is_power_of_two() && size > page && size <= MOST).then_some(size)
}

/// Returns settings for memory that has huge pages: a helper handles whole ones. Two helpers in
/// one huge page would both allocate and zero one, of which the kernel keeps one
/// (__do_huge_pmd_anonymous_page of mm/huge_memory.c), or would split it to free parts.
pub fn in_huge_pages(settings: &Settings, bytes: usize) -> Settings {
    let size = huge_page_size();
    Settings {
        slice: match bytes >= size {
            true => settings.slice.max(size),
            false => settings.slice,
        },
        ..*settings
    }
}

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
/// the kernel has some: by its settings, or else by collapsing. Only blocks of a huge page that
/// are also at a multiple of its size in this process's address space become huge (see
/// [`reserve`]). Blocks that already have pages stay as they are.
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
    // A huge page may be larger than any slice (512 MiB with pages of 64 KiB on arm64).
    let slice = in_huge_pages(&Settings { slice, ..*settings }, bytes).slice;
    let settings = Settings {
        slice: slice.max(settings.slice),
        ..*settings
    };
    regions
        .iter()
        .for_each(|region| want_huge_pages(region.region()));
    let refused = AtomicBool::new(transparent().is_none());
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
    let (page, huge) = (page_size(), huge_page_size());
    for start in (blocks.start()..blocks.end()).step_by(huge) {
        // Each block is given a different page: the huge page is allocated on the node of this
        // page (hpage_collapse_find_target_node), and interleaving depends on the page's
        // number.
        let at = start / huge * page % huge;
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
    let within = huge_page_size() - 1;
    let start = region.start().saturating_add(within) & !within;
    Region::between(start, region.end() & !within)
}

/// True if a page of shared memory is resident, or if the kernel does not report it.
fn is_resident(page: Region) -> bool {
    let mut resident = 1_u8;
    // SAFETY: the kernel writes one byte for one page.
    unsafe { libc::mincore(page.pointer(), page.length(), &mut resident) };
    resident & 1 == 1
}

/// Reserves `length` bytes of addresses from a multiple of a huge page's size, to be mapped over with
/// MAP_FIXED or SHM_REMAP. `length` is a multiple of the page size and not 0.
///
/// Errors: ENOMEM if the address space has not enough room.
pub fn reserve(length: usize) -> Result<Region, Errno> {
    let room = length.checked_add(huge_page_size()).ok_or(Errno::NOMEM)?;
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
        let region = reserve(huge_page_size() + page_size()).unwrap();
        assert_eq!(region.start() % huge_page_size(), 0);
        assert_eq!(crate::mapping::at(region.start()).unwrap().region, region);
        // SAFETY: this test's own mapping.
        unsafe { munmap(region.pointer(), region.length()) }.unwrap();
    }

    #[test]
    fn whole_blocks_become_huge_and_all_pages_are_resident() {
        let huge_page = huge_page_size();
        // Within 1 GiB, also where a huge page has 512 MiB.
        let count = (288 << 20 >> huge_page.trailing_zeros()).clamp(1, 9);
        let length = count * huge_page + 3 * page_size();
        let region = reserve(length).unwrap();
        map_shared(region);
        let byte = region.pointer().cast::<u8>();
        // SAFETY: within the mapping; a block with a page keeps its contents.
        unsafe { byte.add(length / 2 + 5000).write(7) };
        let outcome = populate(&mut [region.into()], Access::Read, &Settings::default());
        assert_eq!(outcome.error, None);
        assert_eq!(field(region, "Rss:"), length);
        // SAFETY: within the mapping.
        assert_eq!(unsafe { byte.add(length / 2 + 5000).read() }, 7);
        let huge = field(region, "ShmemPmdMapped:");
        if huge == 0 {
            eprintln!("skipped: no huge pages for shared memory (before Linux 6.1, or denied)");
        } else {
            assert_eq!(huge, count * huge_page);
        }
        // SAFETY: this test's own mapping.
        unsafe { munmap(region.pointer(), region.length()) }.unwrap();
    }

    #[test]
    fn unaligned_memory_uses_small_pages() {
        let length = 2 * huge_page_size() - page_size();
        let reserved = reserve(length).unwrap();
        let region = Region::between(reserved.start() + page_size(), reserved.end());
        map_shared(region);
        let outcome = populate(&mut [region.into()], Access::Write, &Settings::default());
        assert_eq!(outcome.error, None);
        assert_eq!(field(region, "Rss:"), region.length());
        assert_eq!(field(region, "ShmemPmdMapped:"), 0);
        // SAFETY: this test's own mapping.
        unsafe { munmap(reserved.pointer(), reserved.length()) }.unwrap();
    }

    #[test]
    fn sizes_of_all_architectures_are_accepted_and_others_are_not() {
        for shift in [20, 21, 24, 25, 29] {
            assert_eq!(
                parse_size(&format!("{}\n", 1_usize << shift), page_size()),
                Some(1 << shift)
            );
        }
        for text in ["", "0\n", "-1\n", "3145728\n", "1024\n", "2199023255552\n"] {
            assert_eq!(parse_size(text, page_size()), None, "{text:?}");
        }
    }

    #[test]
    fn helpers_handle_whole_huge_pages_of_memory_that_has_some() {
        let small = Settings {
            slice: page_size(),
            ..Settings::default()
        };
        let size = huge_page_size();
        assert_eq!(in_huge_pages(&small, size).slice, size);
        assert_eq!(in_huge_pages(&small, size - 1).slice, page_size());
    }
}
