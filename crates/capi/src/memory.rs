//! Operations on memory that the program has mapped.

use std::ffi::{c_int, c_void};

use bigiron_memory::call::{self, Answer};
use bigiron_memory::operation::{self, Access};
use bigiron_memory::{Errno, Outcome, Region, huge, mapped};
use rustix::mm::{MlockFlags, mlock_with, munlock};

use crate::boundary::enter;
use crate::options::{ParsedOptions, bigiron_mem_options};
use crate::progress::{in_steps, report};

/// Access of bigiron_mem_populate: as each mapping requires. Writable private memory gets pages
/// of its own; all other memory is mapped as by reads.
pub const BIGIRON_MEM_AS_MAPPED: c_int = 0;
/// Access of bigiron_mem_populate: as by a read of every page. This creates the pages of shared
/// memory (SysV, POSIX, memfd, hugetlbfs); unwritten private memory maps the zero page.
pub const BIGIRON_MEM_READ: c_int = 1;
/// Access of bigiron_mem_populate: as by a write to every page, without changing it.
pub const BIGIRON_MEM_WRITE: c_int = 2;

/// Populates memory, so that later accesses cause no page faults.
///
/// The range is extended to whole pages, and may span several mappings. Contents do not change.
/// After an error a part may be populated.
///
/// EINVAL: the kernel is older than 5.14, a mapping cannot be populated (device memory), or an
/// option is not allowed. ENOMEM: a part of the range is not mapped, or memory is exhausted.
/// EFAULT: access to a page would raise a signal. EHWPOISON: a page has a hardware error.
/// ECANCELED: the progress function ended the operation.
///
/// # Safety
/// `options` must be NULL or point to a struct with its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_populate(
    address: *mut c_void,
    length: usize,
    access: c_int,
    options: *const bigiron_mem_options,
) -> c_int {
    let work = |how: &ParsedOptions| {
        let region = whole_pages(address, length)?;
        Ok(match access {
            BIGIRON_MEM_AS_MAPPED => populate(how, &mapped::parts(region)?),
            BIGIRON_MEM_READ => populate(how, &[(region, Access::Read)]),
            BIGIRON_MEM_WRITE => populate(how, &[(region, Access::Write)]),
            _ => return Err(Errno::INVAL),
        })
    };
    // SAFETY: by the caller's contract.
    unsafe { operate(options, work) }
}

/// Locks memory, as mlock(2): populates it, and keeps it in memory until it is unlocked or
/// unmapped.
///
/// Errors are those of mlock: ENOMEM for memory that is not mapped or exceeds RLIMIT_MEMLOCK,
/// EPERM if that limit is 0, EAGAIN if a part cannot be populated. Also EINVAL for options that
/// are not allowed, and ECANCELED if the progress function ended the operation: the populated
/// part stays locked, and the rest is locked when it is accessed.
///
/// # Safety
/// `options` must be NULL or point to a struct with its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_lock(
    address: *const c_void,
    length: usize,
    options: *const bigiron_mem_options,
) -> c_int {
    let work = |how: &ParsedOptions| {
        let region = whole_pages(address, length)?;
        Ok(lock(how, region))
    };
    // SAFETY: by the caller's contract.
    unsafe { operate(options, work) }
}

/// Unlocks memory, as munlock(2): ENOMEM for memory that is not mapped.
#[unsafe(no_mangle)]
pub extern "C" fn bigiron_mem_unlock(address: *const c_void, length: usize) -> c_int {
    enter(|| {
        let region = whole_pages(address, length)?;
        // SAFETY: unlocking does not change the contents of memory.
        unsafe { munlock(region.pointer(), region.length()) }
    })
}

/// Frees the pages of memory and keeps the mapping (MADV_DONTNEED). Private anonymous memory
/// then reads as zeros, and private memory of a file as the file. Shared memory keeps its
/// contents; only the page tables of this process are removed.
///
/// EINVAL: `address` is not a multiple of the page size. ENOMEM: a part of the range is not
/// mapped.
///
/// # Safety
/// The contents of the memory must not be needed, and not be accessed during the call.
/// `options` must be NULL or point to a struct with its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_release(
    address: *mut c_void,
    length: usize,
    options: *const bigiron_mem_options,
) -> c_int {
    let work = |how: &ParsedOptions| {
        let region = aligned(address, length)?;
        Ok(in_steps(how, &[(region, ())], |part, ()| {
            operation::forget(&mut [part.into()], &how.settings)
        }))
    };
    // SAFETY: by the caller's contract.
    unsafe { operate(options, work) }
}

/// Unmaps memory, as munmap(2), after helpers have freed its pages. Progress is not reported.
///
/// EINVAL: `address` is not a multiple of the page size, or `length` is 0. ENOMEM: a mapping
/// would be split, and the process has the maximum number of mappings; the memory is then
/// unchanged.
///
/// # Safety
/// The memory must no longer be used. `options` must be NULL or point to a struct with its size
/// set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_unmap(
    address: *mut c_void,
    length: usize,
    options: *const bigiron_mem_options,
) -> c_int {
    let work = |how: &ParsedOptions| {
        let region = aligned(address, length)?;
        let answer = call::munmap(&how.policy(), region.start(), length);
        Ok(of_call(region, Outcome::default(), answer))
    };
    // SAFETY: by the caller's contract.
    unsafe { operate(options, work) }
}

/// Runs `work` with the program's options, and writes its outcome.
///
/// # Safety
/// `options` must be NULL or point to a struct with its size set.
unsafe fn operate(
    options: *const bigiron_mem_options,
    work: impl FnOnce(&ParsedOptions) -> Result<Outcome, Errno>,
) -> c_int {
    enter(|| {
        // SAFETY: by the caller's contract.
        let how = unsafe { ParsedOptions::parse(options) }?;
        let outcome = work(&how)?;
        // SAFETY: by the caller's contract.
        unsafe { how.end(outcome) }
    })
}

/// Populates one page, for [`crate::bigiron_mem_works`].
pub fn try_a_page() -> Result<(), Errno> {
    let byte = 0_u8;
    let region = whole_pages((&raw const byte).cast(), 1)?;
    operation::populate(&mut [region.into()], Access::Read, &Default::default())
        .result()
        .map(|_| ())
}

/// Locks as `mlock`, whose result is final.
///
/// To report progress, the pages are populated between two calls: the first locks without
/// populating, and fails at once for limits and unmapped memory; the second finds all pages
/// present.
pub fn lock(how: &ParsedOptions, region: Region) -> Outcome {
    let mut outcome = Outcome::default();
    if how.progress.is_some() {
        // SAFETY: locking does not change the contents of memory.
        let locked = unsafe { mlock_with(region.pointer(), region.length(), MlockFlags::ONFAULT) };
        if let Some(runs) = locked.ok().and_then(|()| mapped::parts(region).ok()) {
            outcome = populate(how, &runs);
        }
        if outcome.error == Some(Errno::CANCELED) {
            return outcome;
        }
    }
    let told = outcome.bytes;
    let answer = call::mlock(&how.policy(), region.start(), region.length());
    let outcome = of_call(region, outcome, answer);
    if outcome.error.is_none() && told < outcome.wanted {
        // At the end there is nothing left to cancel.
        report(how, &outcome);
    }
    outcome
}

/// Combines the outcome of a call with that of the preceding work.
fn of_call(region: Region, before: Outcome, answer: Answer<()>) -> Outcome {
    let mut outcome = before.then(answer.outcome.unwrap_or_default());
    outcome.error = answer.result.err();
    outcome.wanted = region.length();
    if outcome.error.is_none() {
        outcome.bytes = region.length();
    }
    outcome
}

/// Populates regions, each with its access.
pub fn populate(how: &ParsedOptions, regions: &[(Region, Access)]) -> Outcome {
    in_steps(how, regions, |part, access| match access {
        Access::Read if how.huge => huge::populate(&mut [part.into()], access, &how.settings),
        _ => {
            if how.huge {
                operation::want_huge_pages(part);
            }
            operation::populate(&mut [part.into()], access, &how.settings)
        }
    })
}

/// Extends a region to whole pages; EINVAL if it exceeds the address space.
pub fn whole_pages(address: *const c_void, length: usize) -> Result<Region, Errno> {
    let region = Region::new(address.addr(), length).and_then(|region| region.to_pages(page()));
    region.ok_or(Errno::INVAL)
}

/// Extends the end of a page-aligned region to a page boundary; EINVAL if its start is not
/// aligned.
pub fn aligned(address: *const c_void, length: usize) -> Result<Region, Errno> {
    match address.addr() % page() {
        0 => whole_pages(address, length),
        _ => Err(Errno::INVAL),
    }
}

fn page() -> usize {
    rustix::param::page_size()
}
