//! System V segments.

use std::ffi::c_int;
use std::ops::ControlFlow;

use rustix::io::Errno;
use rustix::param::page_size;

use super::HeldSignals;
use super::map::{huge_pages_are_allowed, request_huge_pages};
use super::region_list::{RegionList, drop_list, is_resident, is_worth_dropping};
use super::state::Segment;
use super::system;
use super::{Answer, State, can_populate, is_large, settings};
use crate::engine::{Outcome, Settings};
use crate::huge;
use crate::machine::available_memory;
use crate::mapping;
use crate::operation::{Access, populate};
use crate::policy::{Attach, Destroy, Policy};
use crate::reaper::{Held, Reaper, is_advisable};
use crate::region::{JobRegion, Region};

/// Acts as shmget(2).
pub fn shmget(
    policy: &Policy,
    state: &State,
    key: c_int,
    size: usize,
    flags: c_int,
) -> Result<c_int, Errno> {
    let id = system::shmget(key, size, flags)?;
    note_shmget(policy, state, id, key, size, flags);
    Ok(id)
}

/// Records the result of a shmget(2) with these arguments.
#[inline]
pub fn note_shmget(
    policy: &Policy,
    state: &State,
    id: c_int,
    key: c_int,
    size: usize,
    flags: c_int,
) {
    if !policy.enabled || (key != libc::IPC_PRIVATE && flags & libc::IPC_CREAT == 0) {
        return;
    }
    let new = key == libc::IPC_PRIVATE || flags & libc::IPC_EXCL != 0;
    let kept_apart = flags & (libc::SHM_HUGETLB | libc::SHM_NORESERVE) != 0;
    let known = if is_large(policy, size) {
        // Whether the segment is new is determined when it is attached.
        (!kept_apart).then_some(Segment::Ours)
    } else {
        new.then_some(Segment::Small)
    };
    state.note_segment(id, known.unwrap_or(Segment::Other));
}

/// Acts as shmat(2).
///
/// Also populates a segment that this process has just created, if the policy requests that and
/// enough free memory remains.
pub fn shmat(
    policy: &Policy,
    state: &State,
    id: c_int,
    address: usize,
    flags: c_int,
) -> Answer<usize> {
    let known = state.segment(id);
    if !policy.enabled || known == Segment::Small {
        return Answer::plain(system::shmat(id, address, flags));
    }
    let held = HeldSignals::hold();
    let new = (known == Segment::Ours && flags & libc::SHM_RDONLY == 0)
        .then(|| new_segment(policy, id))
        .flatten();
    let aligned = new
        .filter(|_| address == 0)
        .and_then(|bytes| attach_aligned(policy, id, bytes, flags));
    let attached = aligned.map_or_else(|| system::shmat(id, address, flags), Ok);
    let Ok(address) = attached else {
        return Answer::plain(attached);
    };
    let outcome = note(policy, state, id, address)
        .filter(|_| new.is_some())
        .and_then(|region| apply_policy(policy, id, region, &settings(policy, &held)));
    Answer {
        result: Ok(address),
        outcome,
    }
}

/// Returns the size of a segment that is large, was created by this process, and has never been
/// attached; `None` for others.
fn new_segment(policy: &Policy, id: c_int) -> Option<usize> {
    let segment = system::segment(id).ok()?;
    let ours = segment.shm_cpid.unsigned_abs() == system::process();
    let new = ours && segment.shm_nattch == 0 && segment.shm_atime == 0;
    (new && is_large(policy, segment.shm_segsz)).then_some(segment.shm_segsz)
}

/// Attaches a segment at an address where huge pages can be mapped. The kernel chooses such
/// addresses only if all shared memory has huge pages (shmem_get_unmapped_area of mm/shmem.c).
fn attach_aligned(policy: &Policy, id: c_int, bytes: usize, flags: c_int) -> Option<usize> {
    if !policy.huge || policy.attach == Attach::Plain || bytes < huge::huge_page_size() {
        return None;
    }
    let place = huge::reserve(bytes.checked_next_multiple_of(page_size())?).ok()?;
    let attached = system::shmat(id, place.start(), flags | libc::SHM_REMAP);
    attached
        .inspect_err(|_| system::undo_mapping(place.start(), place.length()))
        .ok()
}

/// Records an attachment, if it is large.
fn note(policy: &Policy, state: &State, id: c_int, address: usize) -> Option<Region> {
    let bytes = system::segment(id).ok()?.shm_segsz;
    if !is_large(policy, bytes) {
        state.note_segment(id, Segment::Small);
        return None;
    }
    let region = Region::new(address, bytes)?.to_pages(page_size())?;
    state.note_large();
    state.note_attachment(id, region);
    Some(region)
}

/// Applies the policy to a new segment, attached in `region`.
fn apply_policy(
    policy: &Policy,
    id: c_int,
    region: Region,
    settings: &Settings,
) -> Option<Outcome> {
    let whole = matches!(policy.attach, Attach::Create | Attach::Lock);
    if !whole || !fits(region) || !can_populate() {
        if policy.attach != Attach::Plain && policy.huge {
            request_huge_pages(region);
        }
        return None;
    }
    let mut regions = [JobRegion::from(region)];
    let outcome = if policy.huge && huge_pages_are_allowed() {
        huge::populate(&mut regions, Access::Read, settings)
    } else {
        populate(&mut regions, Access::Read, settings)
    };
    if policy.attach == Attach::Lock {
        // If that is not permitted, the segment stays as without this policy.
        let _ = system::shmctl(id, libc::SHM_LOCK, 0);
    }
    Some(outcome)
}

/// True if memory that the program has not accessed yet can be populated without harm: a
/// quarter of the free memory must remain.
fn fits(region: Region) -> bool {
    region.length() as u64 <= available_memory() / 4 * 3
}

/// Acts as shmdt(2).
///
/// Helpers first remove the page tables. If this is the last attachment of a segment that is
/// marked for destruction, a reaper frees the segment if the policy allows it.
pub fn shmdt(policy: &Policy, state: &State, address: usize) -> Answer<()> {
    let plain = || system::shmdt(address);
    let attached = state
        .take_attachment(address)
        .filter(|_| policy.enabled && policy.destroy != Destroy::Plain);
    let Some((id, region)) = attached else {
        return Answer::plain(plain());
    };
    if !is_worth_dropping(policy, region) {
        return Answer::plain(plain());
    }
    let held = HeldSignals::hold();
    let outcome = remove_page_tables(id, region, &settings(policy, &held));
    let reaper = system::segment(id)
        .ok()
        .filter(|segment| {
            segment.shm_nattch == 1 && u32::from(segment.shm_perm.mode) & SHM_DEST != 0
        })
        .and_then(|segment| reaper_for(policy, state, id, segment.shm_segsz));
    let result = plain();
    finish(reaper, id);
    Answer { result, outcome }
}

/// Mode bit of a segment that is destroyed with its last attachment.
const SHM_DEST: u32 = 0o1000;

/// Removes the page tables of the parts of a region where a segment is still attached.
fn remove_page_tables(id: c_int, region: Region, settings: &Settings) -> Option<Outcome> {
    let mut regions = drop_list(settings);
    each_part(id, region, |part| regions.add(part));
    regions.finish()
}

/// Calls `each` for the parts of a region where a segment is mapped. The program may have
/// mapped something else over parts of an attachment.
fn each_part(id: c_int, region: Region, mut each: impl FnMut(Region)) {
    let _ = mapping::for_each(region, |mapping| {
        if mapping.system_v && mapping.shared && mapping.inode == u64::from(id.unsigned_abs()) {
            each(mapping.region.intersection(region));
        }
        ControlFlow::Continue(())
    });
}

fn reaper_for(policy: &Policy, state: &State, id: c_int, bytes: usize) -> Option<Reaper> {
    let program = state.program()?;
    if policy.destroy != Destroy::Reaper || !is_advisable(bytes) {
        return None;
    }
    Reaper::start(program, &[Held::SystemV(id)], None).ok()
}

/// Makes the reaper release the segment, and waits until the segment no longer exists.
fn finish(reaper: Option<Reaper>, id: c_int) {
    if let Some(reaper) = reaper {
        reaper.go().wait_until_gone(id);
    }
}

/// Acts as shmctl(2).
///
/// SHM_LOCK also populates the pages that it locks. IPC_RMID leaves a segment without
/// attachments to a reaper, if the policy allows it. `argument` depends on the command: the
/// address of a structure of the caller, or nothing.
pub fn shmctl(
    policy: &Policy,
    state: &State,
    id: c_int,
    command: c_int,
    argument: usize,
) -> Answer<c_int> {
    let plain = || system::shmctl(id, command, argument);
    if !policy.enabled || state.segment(id) == Segment::Small {
        return Answer::plain(plain());
    }
    match command {
        libc::SHM_LOCK => {
            let result = plain();
            let outcome = result.ok().and_then(|_| populate_locked(policy, state, id));
            Answer { result, outcome }
        }
        libc::IPC_RMID => {
            if policy.destroy != Destroy::Reaper || state.program().is_none() {
                return Answer::plain(plain());
            }
            let held = HeldSignals::hold();
            let reaper = system::segment(id)
                .ok()
                .filter(|segment| segment.shm_nattch == 0)
                .and_then(|segment| reaper_for(policy, state, id, segment.shm_segsz));
            let result = plain();
            finish(reaper, id);
            drop(held);
            Answer::plain(result)
        }
        _ => Answer::plain(plain()),
    }
}

/// Populates a segment that is now locked, if this process created it and has attached it.
fn populate_locked(policy: &Policy, state: &State, id: c_int) -> Option<Outcome> {
    if !policy.create_locked || state.segment(id) != Segment::Ours {
        return None;
    }
    let region = state.attachment_of(id)?;
    if is_resident(region) || !fits(region) || !can_populate() {
        return None;
    }
    let held = HeldSignals::hold();
    let settings = settings(policy, &held);
    let mut regions = RegionList::new(&settings, super::region_list::populating(Access::Read));
    each_part(id, region, |part| regions.add(part));
    regions.finish()
}
