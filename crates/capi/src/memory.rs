//! Operations on memory that the program has mapped.

use std::ffi::{c_int, c_void};

use bigiron_memory::call::{self, Answer};
use bigiron_memory::operation::{self, Access};
use bigiron_memory::{Errno, Outcome, Region, huge, mapped};
use rustix::mm::{MlockFlags, mlock_with, munlock};

use crate::boundary::enter;
use crate::options::{ParsedOptions, bigiron_mem_options};
use crate::progress::{in_steps, report};

/// bigiron_mem_populate: as each mapping needs it. Private memory that may be written becomes the process's
/// own, all else is mapped as by reading.
pub const BIGIRON_MEM_AS_MAPPED: c_int = 0;
/// bigiron_mem_populate: as by reading every page. Pages of shared memory (SysV, POSIX, memfd, hugetlbfs) are
/// made by that; private memory that nobody wrote to shows the page of zeros.
pub const BIGIRON_MEM_READ: c_int = 1;
/// bigiron_mem_populate: as by writing to every page, without changing it.
pub const BIGIRON_MEM_WRITE: c_int = 2;

/// Makes the pages of memory and maps them, so that no later touch waits.
///
/// The memory is grown to whole pages, and may span several mappings. Contents do not change. After an
/// error a part may be populated.
///
/// EINVAL: the kernel is older than 5.14, a mapping cannot be populated (of a device), or an option is
/// not allowed. ENOMEM: nothing is mapped in a part of it, or memory ended. EFAULT: touching a page would
/// raise a signal. EHWPOISON: a page has a hardware error. ECANCELED: the progress function said so.
///
/// # Safety
/// `options` is NULL or a struct with its size set.
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
    // SAFETY: as the caller promises.
    unsafe { operate(options, work) }
}

/// Locks memory, as mlock(2): it is made, and stays in memory until it is unlocked or unmapped.
///
/// Errors are those of mlock: ENOMEM for memory that is not mapped and beyond RLIMIT_MEMLOCK, EPERM where
/// that is 0, EAGAIN where a part could not be made. And EINVAL for options that are not allowed; ECANCELED when
/// the progress function said so: what was made stays locked, the rest is locked when it is touched.
///
/// # Safety
/// `options` is NULL or a struct with its size set.
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
    // SAFETY: as the caller promises.
    unsafe { operate(options, work) }
}

/// Unlocks memory, as munlock(2): ENOMEM for memory that is not mapped.
#[unsafe(no_mangle)]
pub extern "C" fn bigiron_mem_unlock(address: *const c_void, length: usize) -> c_int {
    enter(|| {
        let region = whole_pages(address, length)?;
        // SAFETY: unlocking changes nothing that the program can see in its memory.
        unsafe { munlock(region.pointer(), region.length()) }
    })
}

/// Gives the pages of memory back, and leaves it mapped (MADV_DONTNEED). Private anonymous memory reads as zeros
/// then; private memory of a file as the file; shared memory keeps its contents, only this process's page tables go.
///
/// EINVAL: `address` is no multiple of the page size. ENOMEM: nothing is mapped in a part of it.
///
/// # Safety
/// Nobody uses the memory meanwhile, or minds losing it. `options` is NULL or a struct with its size set.
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
    // SAFETY: as the caller promises.
    unsafe { operate(options, work) }
}

/// Unmaps memory, as munmap(2): helpers give its pages back before. No progress is told.
///
/// EINVAL: `address` is no multiple of the page size, or `length` is 0. ENOMEM: a mapping would be cut in two,
/// and the process has as many as it may; it is all there still.
///
/// # Safety
/// Nobody uses the memory any more. `options` is NULL or a struct with its size set.
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
    // SAFETY: as the caller promises.
    unsafe { operate(options, work) }
}

/// Runs `work` by the program's options, and tells the program what became of it.
///
/// # Safety
/// `options` is NULL or a struct with its size set.
unsafe fn operate(
    options: *const bigiron_mem_options,
    work: impl FnOnce(&ParsedOptions) -> Result<Outcome, Errno>,
) -> c_int {
    enter(|| {
        // SAFETY: as the caller promises.
        let how = unsafe { ParsedOptions::parse(options) }?;
        let outcome = work(&how)?;
        // SAFETY: as the caller promises.
        unsafe { how.end(outcome) }
    })
}

/// The trial of [`crate::bigiron_mem_works`].
pub fn try_a_page() -> Result<(), Errno> {
    let byte = 0_u8;
    let region = whole_pages((&raw const byte).cast(), 1)?;
    operation::populate(&mut [region.into()], Access::Read, &Default::default())
        .result()
        .map(|_| ())
}

/// Locks as `mlock`, whose result counts in the end.
///
/// Where progress is told, the pages are made before, between a locking that makes none and fails
/// for limits and unmapped memory at once, and that which finds all there.
pub fn lock(how: &ParsedOptions, region: Region) -> Outcome {
    let mut outcome = Outcome::default();
    if how.progress.is_some() {
        // SAFETY: locking changes nothing that the program can see in its memory.
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
        // Of the end there is nothing left to stop.
        report(how, &outcome);
    }
    outcome
}

/// What a call did, after what was done before it.
fn of_call(region: Region, before: Outcome, answer: Answer<()>) -> Outcome {
    let mut outcome = before.then(answer.outcome.unwrap_or_default());
    outcome.error = answer.result.err();
    outcome.wanted = region.length();
    if outcome.error.is_none() {
        outcome.bytes = region.length();
    }
    outcome
}

/// Makes the pages of regions, each as it says.
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

/// A region grown to whole pages; EINVAL past the end of all addresses.
pub fn whole_pages(address: *const c_void, length: usize) -> Result<Region, Errno> {
    let region = Region::new(address.addr(), length).and_then(|region| region.to_pages(page()));
    region.ok_or(Errno::INVAL)
}

/// A region that begins with a page, its end grown to that of one; else EINVAL.
pub fn aligned(address: *const c_void, length: usize) -> Result<Region, Errno> {
    match address.addr() % page() {
        0 => whole_pages(address, length),
        _ => Err(Errno::INVAL),
    }
}

fn page() -> usize {
    rustix::param::page_size()
}
