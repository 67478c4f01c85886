//! Locking of memory.

use std::ffi::c_int;
use std::ops::ControlFlow;

use rustix::io::Errno;
use rustix::param::page_size;

use super::HeldSignals;
use super::map::request_huge_pages;
use super::region_list::{RegionList, access, add_some, is_resident, populating};
use super::state::Future;
use super::system;
use super::{Answer, State, can_populate, is_large, settings};
use crate::engine::{Outcome, Settings};
use crate::huge::{huge_page_size, in_huge_pages};
use crate::mapping;
use crate::operation::Access;
use crate::policy::Policy;
use crate::region::Region;

/// Flag of mlock2: pages are locked as they are faulted in. That of mlockall differs between
/// architectures.
const MLOCK_ONFAULT: u32 = 1;

/// Acts as mlock(2).
///
/// First locks without populating, which fails if the limit does not allow it. Helpers then
/// populate the region. The plain call follows, and its result is returned.
pub fn mlock(policy: &Policy, address: usize, length: usize) -> Answer<()> {
    let plain = || system::mlock(address, length);
    if !policy.lock || !is_large(policy, length) {
        return Answer::plain(plain());
    }
    let region = Region::new(address, length).and_then(|region| region.to_pages(page_size()));
    let Some(region) = region.filter(|region| !is_resident(*region) && can_populate()) else {
        return Answer::plain(plain());
    };
    let held = HeldSignals::hold();
    if cuts_segment(region) || system::mlock2(address, length, MLOCK_ONFAULT).is_err() {
        return Answer::plain(plain());
    }
    let outcome = populate_all(
        region,
        Inaccessible::Stops,
        policy,
        &settings(policy, &held),
    );
    Answer {
        result: plain(),
        outcome,
    }
}

/// True if a region begins or ends within a mapping of a System V segment. Locking in two steps
/// could split the mapping differently from the plain call, and each part counts as an
/// attachment (shm_nattch): the kernel moves the border between two such mappings if their
/// flags are alike, but does not merge them (is_mergeable_vma of mm/mmap.c).
fn cuts_segment(region: Region) -> bool {
    let mut cuts = false;
    let _ = mapping::for_each(region, |mapping| {
        cuts = mapping.system_v && mapping.region.intersection(region) != mapping.region;
        match cuts {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    cuts
}

/// Acts as mlock2(2).
pub fn mlock2(policy: &Policy, address: usize, length: usize, flags: u32) -> Answer<()> {
    if flags == 0 {
        // The C library then uses the older call, which older kernels have too.
        return mlock(policy, address, length);
    }
    let result = system::mlock2(address, length, flags);
    // Nor does the C library distinguish an unknown call from unknown flags.
    Answer::plain(result.map_err(|error| match error {
        Errno::NOSYS => Errno::INVAL,
        other => other,
    }))
}

/// Acts as mlockall(2).
pub fn mlockall(policy: &Policy, state: &State, flags: c_int) -> Answer<()> {
    let shared = policy.enabled
        && policy.lock
        && flags & libc::MCL_CURRENT != 0
        && flags & !(libc::MCL_CURRENT | libc::MCL_FUTURE) == 0
        && can_populate();
    let mut outcome = None;
    let held = HeldSignals::hold();
    // Without MCL_FUTURE: mappings that other threads create meanwhile are locked by the last
    // call.
    if shared && system::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT).is_ok() {
        let everything = Region::between(0, usize::MAX);
        outcome = populate_all(
            everything,
            Inaccessible::IsSkipped,
            policy,
            &settings(policy, &held),
        );
    }
    if flags & libc::MCL_FUTURE != 0 {
        state.prepare_future();
    }
    let result = system::mlockall(flags);
    if result.is_ok() {
        note_mlockall(state, flags);
    }
    Answer { result, outcome }
}

/// Records that a plain mlockall(2) with these flags succeeded.
pub fn note_mlockall(state: &State, flags: c_int) {
    state.note_future(
        match (flags & libc::MCL_FUTURE, flags & libc::MCL_ONFAULT) {
            (0, _) => Future::Free,
            (_, 0) => Future::Locked,
            _ => Future::OnFault,
        },
    );
}

/// Acts as munlockall(2).
pub fn munlockall(state: &State) -> Result<(), Errno> {
    let result = system::munlockall();
    if result.is_ok() {
        state.note_future(Future::Free);
    }
    result
}

/// Treatment of a mapping that may not be accessed, and of those after it (__mm_populate of
/// mm/gup.c).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inaccessible {
    /// mlock stops there with an error, and populates nothing after it.
    Stops,
    /// mlockall skips the mapping and continues.
    IsSkipped,
}

/// Populates all mappings in a region, each as the kernel populates it when it locks it:
/// private ones in huge pages if the policy requests them. Failures are left to the plain call.
pub(super) fn populate_all(
    region: Region,
    inaccessible: Inaccessible,
    policy: &Policy,
    settings: &Settings,
) -> Option<Outcome> {
    let in_huge = match policy.huge {
        true => in_huge_pages(settings, region.length()),
        false => *settings,
    };
    let mut written = RegionList::new(&in_huge, populating(Access::Write));
    let mut read = RegionList::new(settings, populating(Access::Read));
    let _ = mapping::for_each(region, |mapping| {
        let part = mapping.region.intersection(region);
        match access(&mapping) {
            Some(Access::Write) => {
                let large = part.length() >= settings.straight_below.max(huge_page_size());
                if policy.huge && large && !mapping.of_file {
                    request_huge_pages(part);
                }
                written.add(part);
            }
            Some(Access::Read) => read.add(part),
            None if inaccessible == Inaccessible::Stops
                && mapping.protection() == libc::PROT_NONE =>
            {
                return ControlFlow::Break(());
            }
            None => {}
        }
        ControlFlow::Continue(())
    });
    add_some(written.finish(), read.finish())
}
