//! Mappings: created and populated, advised, removed.

use std::ffi::c_int;
use std::ops::ControlFlow;

use rustix::io::Errno;
use rustix::param::page_size;

use super::HeldSignals;
use super::region_list::{drop_list, is_worth_dropping};
use super::state::Future;
use super::system::{self, madvise as advise};
use super::{Answer, State, can_populate, is_large, settings};
use crate::engine::{Outcome, Settings};
use crate::huge;
use crate::mapping::{self, Mapping};
use crate::operation::{Access, populate, want_huge_pages};
use crate::plain::Mmap;
use crate::policy::{Destroy, Policy};
use crate::region::{JobRegion, Region};

const MLOCK_ONFAULT: u32 = 1;

/// Arguments of mmap(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Address; 0 if the kernel chooses.
    pub address: usize,
    /// Length in bytes.
    pub length: usize,
    /// Protection: PROT_… flags.
    pub protection: c_int,
    /// Flags: MAP_….
    pub flags: c_int,
    /// File descriptor, or -1.
    pub descriptor: c_int,
    /// Offset in the file.
    pub offset: i64,
}

impl Request {
    /// Makes the plain call.
    pub fn plain(&self) -> Result<usize, Errno> {
        system::mmap(&self.arguments())
    }

    /// Returns the arguments of the plain call.
    pub fn arguments(&self) -> Mmap {
        Mmap {
            address: self.address,
            length: self.length,
            protection: self.protection.into(),
            flags: self.flags.into(),
            descriptor: self.descriptor.into(),
            offset: self.offset,
        }
    }

    fn has(&self, flag: c_int) -> bool {
        self.flags & flag == flag
    }

    fn is_private(&self) -> bool {
        self.flags & libc::MAP_TYPE == libc::MAP_PRIVATE
    }

    /// Returns the access for which the mapping is populated; `None` if that is left to the
    /// kernel.
    fn access(&self) -> Option<Access> {
        let kind = self.flags & libc::MAP_TYPE;
        let known = [
            libc::MAP_SHARED,
            libc::MAP_SHARED_VALIDATE,
            libc::MAP_PRIVATE,
        ];
        if self.has(libc::MAP_GROWSDOWN) || !known.contains(&kind) {
            None
        } else if self.protection & libc::PROT_WRITE != 0 && self.is_private() {
            Some(Access::Write)
        } else if self.protection & libc::PROT_READ != 0 {
            Some(Access::Read)
        } else {
            None
        }
    }

    /// Returns the page size in bytes that MAP_HUGETLB requests, if specified.
    fn huge_page(&self) -> Option<usize> {
        let shift = self.flags >> libc::MAP_HUGE_SHIFT & libc::MAP_HUGE_MASK;
        (self.has(libc::MAP_HUGETLB) && shift > 0).then(|| 1_usize.checked_shl(shift as u32))?
    }
}

/// Acts as mmap(2).
///
/// Helpers populate the memory that the kernel would populate because of MAP_POPULATE,
/// MAP_LOCKED or an earlier mlockall(MCL_FUTURE). A failure to populate is not an error, as
/// with the plain call.
pub fn mmap(policy: &Policy, state: &State, request: &Request) -> Answer<usize> {
    if !is_large(policy, request.length) {
        return Answer::plain(request.plain());
    }
    state.note_large();
    let answer = map_large(policy, state, request);
    if let Ok(region) = answer.result.map(|at| Region::new(at, request.length))
        && let Some(region) = region
        && policy.exit
    {
        let private = request.is_private() && request.has(libc::MAP_ANONYMOUS);
        state.private().forget(region);
        if private && request.protection & libc::PROT_WRITE != 0 {
            state.private().note(region, 0);
        }
    }
    answer
}

fn map_large(policy: &Policy, state: &State, request: &Request) -> Answer<usize> {
    let access = request.access().filter(|_| policy.populate);
    let made = request.has(libc::MAP_POPULATE) && !request.has(libc::MAP_NONBLOCK);
    let future = state.future();
    let Some(access) = access else {
        return Answer::plain(aligned(policy, request).unwrap_or_else(|| request.plain()));
    };
    let fixed = request.flags & libc::MAP_FIXED != 0;
    if future == Future::OnFault {
        return Answer::plain(request.plain());
    }
    if future == Future::Locked && policy.lock {
        let simple = request.is_private()
            && request.has(libc::MAP_ANONYMOUS)
            && !request.has(libc::MAP_HUGETLB);
        if fixed || !simple || !can_populate() {
            return Answer::plain(request.plain());
        }
        return locked(policy, request, access, reserve_in_locked_process);
    }
    if request.has(libc::MAP_LOCKED) {
        if fixed || !policy.lock || !can_populate() {
            return Answer::plain(request.plain());
        }
        return locked(policy, request, access, reserve);
    }
    if !made || !can_populate() {
        return Answer::plain(request.plain());
    }
    let held = HeldSignals::hold();
    let bare = Request {
        flags: request.flags & !libc::MAP_POPULATE,
        ..*request
    };
    match bare.plain() {
        Ok(address) => Answer {
            result: Ok(address),
            outcome: populate_new(policy, request, address, access, &settings(policy, &held)),
        },
        Err(error) => Answer::plain(Err(error)),
    }
}

/// Reserves addresses, if the kernel chooses them, at a multiple of the size of a
/// huge page: otherwise memory that the program maps there could not have huge pages. `None` for other requests.
fn aligned(policy: &Policy, request: &Request) -> Option<Result<usize, Errno>> {
    let expected = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let is_reservation = request.protection == libc::PROT_NONE
        && request.address == 0
        && request.flags & !libc::MAP_NORESERVE == expected;
    if !policy.huge || !is_reservation || request.length < huge::huge_page_size() {
        return None;
    }
    let region = huge::reserve(request.length.checked_next_multiple_of(page_size())?).ok()?;
    let there = Request {
        address: region.start(),
        flags: request.flags | libc::MAP_FIXED,
        ..*request
    };
    let result = there.plain();
    if result.is_err() {
        let _ = system::munmap(region.start(), region.length());
        return None;
    }
    Some(result)
}

/// Creates a locked mapping. `reserve` creates it without populating it; pages are locked when
/// they are faulted in. After a failure everything is undone, and the plain call returns the
/// reason.
fn locked(
    policy: &Policy,
    request: &Request,
    access: Access,
    reserve: fn(&Request) -> Result<usize, Errno>,
) -> Answer<usize> {
    let held = HeldSignals::hold();
    let Ok(address) = reserve(request) else {
        return Answer::plain(request.plain());
    };
    let outcome = populate_new(policy, request, address, access, &settings(policy, &held));
    if system::mlock(address, request.length).is_err() {
        system::undo_mapping(address, request.length);
        return Answer::plain(request.plain());
    }
    Answer {
        result: Ok(address),
        outcome,
    }
}

fn reserve(request: &Request) -> Result<usize, Errno> {
    let bare = Request {
        flags: request.flags & !(libc::MAP_POPULATE | libc::MAP_LOCKED),
        ..*request
    };
    let address = bare.plain()?;
    lock_on_fault(address, request.length)?;
    Ok(address)
}

/// For a process whose new mappings are locked and populated at once: first maps inaccessible
/// memory, which the kernel does not populate.
fn reserve_in_locked_process(request: &Request) -> Result<usize, Errno> {
    let bare = Request {
        protection: libc::PROT_NONE,
        ..*request
    };
    let address = bare.plain()?;
    lock_on_fault(address, request.length)?;
    // This populates nothing: the memory is locked on fault (populate_vma_page_range of
    // mm/gup.c).
    let allowed = system::mprotect(address, request.length, request.protection);
    allowed.inspect_err(|_| system::undo_mapping(address, request.length))?;
    Ok(address)
}

fn lock_on_fault(address: usize, length: usize) -> Result<(), Errno> {
    let locked = system::mlock2(address, length, MLOCK_ONFAULT);
    locked.inspect_err(|_| system::undo_mapping(address, length))
}

/// Populates a new mapping.
fn populate_new(
    policy: &Policy,
    request: &Request,
    address: usize,
    access: Access,
    settings: &Settings,
) -> Option<Outcome> {
    let region = Region::new(address, request.length)?.to_pages(page_size())?;
    let mut settings = *settings;
    if policy.huge && request.has(libc::MAP_ANONYMOUS) && !request.has(libc::MAP_HUGETLB) {
        request_huge_pages(region);
        settings = huge::in_huge_pages(&settings, region.length());
    }
    let settings = Settings {
        slice: settings.slice.max(request.huge_page().unwrap_or(0)),
        ..settings
    };
    Some(populate(&mut [JobRegion::from(region)], access, &settings))
}

/// Requests huge pages, unless the program has disabled them.
pub(super) fn request_huge_pages(region: Region) {
    if huge_pages_are_allowed() {
        want_huge_pages(region);
    }
}

/// True if the program has not disabled huge pages (PR_SET_THP_DISABLE).
pub(super) fn huge_pages_are_allowed() -> bool {
    let arguments = [libc::PR_GET_THP_DISABLE as usize, 0, 0, 0, 0];
    system::call(libc::SYS_prctl, arguments) == Ok(0)
}

/// True if a region is within one mapping of shared memory.
fn is_shared_memory(region: Region) -> bool {
    mapping::at(region.start()).is_some_and(|mapping| {
        let all = mapping.region.intersection(region) == region;
        all && mapping.shared && mapping.of_memory
    })
}

/// Acts as madvise(2) with MADV_POPULATE_READ and MADV_POPULATE_WRITE.
pub fn madvise(policy: &Policy, address: usize, length: usize, advice: c_int) -> Answer<()> {
    let plain = || advise(address, length, advice);
    let access = match advice {
        libc::MADV_POPULATE_READ => Access::Read,
        libc::MADV_POPULATE_WRITE => Access::Write,
        _ => return Answer::plain(plain()),
    };
    let aligned = address.is_multiple_of(page_size());
    let region = Region::new(address, length).and_then(|region| region.to_pages(page_size()));
    let Some(region) = region.filter(|_| aligned && policy.populate && is_large(policy, length))
    else {
        return Answer::plain(plain());
    };
    let held = HeldSignals::hold();
    let mut regions = [JobRegion::from(region)];
    let settings = settings(policy, &held);
    let outcome = if policy.huge && is_shared_memory(region) && huge_pages_are_allowed() {
        huge::populate(&mut regions, access, &settings)
    } else {
        populate(&mut regions, access, &settings)
    };
    // If a part cannot be populated, the plain call returns the reason: it finds the other
    // parts populated.
    let result = outcome.error.map_or(Ok(()), |_| plain());
    Answer {
        result,
        outcome: Some(outcome),
    }
}

/// Acts as munmap(2).
///
/// Helpers first free the pages, if the memory will certainly be unmapped.
pub fn munmap(policy: &Policy, address: usize, length: usize) -> Answer<()> {
    let plain = || system::munmap(address, length);
    let aligned = address.is_multiple_of(page_size());
    let region = Region::new(address, length).and_then(|region| region.to_pages(page_size()));
    let region = region.filter(|region| {
        aligned && policy.destroy != Destroy::Plain && is_worth_dropping(policy, *region)
    });
    let Some(region) = region else {
        return Answer::plain(plain());
    };
    let held = HeldSignals::hold();
    let outcome = if may_be_unmapped(region) && split_at_ends(region) {
        drop_pages(region, &settings(policy, &held))
    } else {
        None
    };
    Answer {
        result: plain(),
        outcome,
    }
}

/// True if helpers free the pages of a mapping that is removed: only memory that is not a
/// file's or a device's. For other private mappings that costs as much as the kernel's own
/// call, and devices may behave differently.
fn is_freed_by_helpers(mapping: &Mapping) -> bool {
    if mapping.shared {
        mapping.of_memory
    } else {
        !mapping.of_file && !mapping.special && (mapping.readable || mapping.writable)
    }
}

/// True if nothing in a region is sealed (mseal(2)). Sets the protection that each mapping
/// already has: this changes nothing, but fails wherever unmapping would.
fn may_be_unmapped(region: Region) -> bool {
    let mut allowed = true;
    let seen = mapping::for_each(region, |mapping| {
        let part = mapping.region.intersection(region);
        if !mapping.shared && is_freed_by_helpers(&mapping) {
            let protection = mapping.protection();
            allowed = system::mprotect(part.start(), part.length(), protection).is_ok();
        }
        if allowed {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    allowed && seen.is_ok()
}

/// Splits mappings at the start and end of a region. Fails if unmapping would, that is, if the
/// process has the maximum number of mappings.
fn split_at_ends(region: Region) -> bool {
    let mut split = true;
    let mut advised = None;
    let seen = mapping::for_each(region, |mapping| {
        let part = mapping.region.intersection(region);
        if part != mapping.region && !mapping.shared && is_freed_by_helpers(&mapping) {
            split = advise(part.start(), part.length(), libc::MADV_DONTFORK).is_ok();
            if let (false, Some(before)) = (split, advised) {
                let before: Region = before;
                let _ = advise(before.start(), before.length(), libc::MADV_DOFORK);
            }
            advised = Some(part);
        }
        if split {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    split && seen.is_ok()
}

fn drop_pages(region: Region, settings: &Settings) -> Option<Outcome> {
    let mut regions = drop_list(settings);
    let _ = mapping::for_each(region, |mapping| {
        if is_freed_by_helpers(&mapping) {
            regions.add(mapping.region.intersection(region));
        }
        ControlFlow::Continue(())
    });
    regions.finish()
}
