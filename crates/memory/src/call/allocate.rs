//! Allocator memory while all new memory is locked.
//!
//! The C library's allocator maps large blocks by internal calls, which no library can
//! intercept. After mlockall(MCL_FUTURE) the kernel populates them completely within these
//! calls.

use std::ops::ControlFlow;

use rustix::param::page_size;

use super::HeldSignals;
use super::end::is_alone;
use super::lock::{Inaccessible, populate_all};
use super::region_list::add_some;
use super::state::Future;
use super::system;
use super::{State, can_populate, is_large, settings};
use crate::engine::Outcome;
use crate::mapping;
use crate::policy::Policy;
use crate::region::Region;

/// Maximum number of existing mappings that are compared with new ones; if there are more, the
/// allocator is called alone.
const MAX_MAPPINGS: usize = 512;
/// Maximum number of new mappings: those of the block, and those that other threads create
/// meanwhile.
const MAX_NEW: usize = 16;

/// A block from an allocator.
#[derive(Clone, Copy, Debug)]
pub struct Block<T> {
    /// The allocator's return value.
    pub result: T,
    /// Address of the block; 0 without one.
    pub address: usize,
}

/// Calls `plain`, which takes `bytes` from an allocator. In a process whose new memory is
/// locked, helpers populate the new mappings.
///
/// While `plain` runs, new memory is locked on fault, for some microseconds. This affects other
/// threads too. If there are any, it is done only if the policy allows it; their new mappings,
/// except those in place of earlier ones, are then found, locked and populated too.
pub fn allocate<T>(
    policy: &Policy,
    state: &State,
    bytes: usize,
    plain: impl FnOnce() -> Block<T>,
) -> (T, Option<Outcome>) {
    let wanted = policy.lock && is_large(policy, bytes) && state.future() == Future::Locked;
    if !wanted || !can_populate() || !(policy.aligned_beside_others || is_alone()) {
        return (plain().result, None);
    }
    let held = HeldSignals::hold();
    let Some(before) = MappingSnapshot::now() else {
        return (plain().result, None);
    };
    if system::mlockall(libc::MCL_FUTURE | libc::MCL_ONFAULT).is_err() {
        return (plain().result, None);
    }
    let block = plain();
    // Skipped if another thread has unlocked everything meanwhile. MCL_FUTURE alone leaves
    // existing mappings as they are (apply_mlockall_flags of mm/mlock.c).
    if state.future() == Future::Locked {
        let _ = system::mlockall(libc::MCL_FUTURE);
    }
    let mut outcome = None;
    let mut lock = |part: Region| {
        if part.is_empty() {
            return;
        }
        let made = populate_all(
            part,
            Inaccessible::IsSkipped,
            policy,
            &settings(policy, &held),
        );
        outcome = add_some(outcome, made);
        // For an allocation, a failure to populate pages is not an error.
        let _ = system::mlock(part.start(), part.length());
    };
    let own = Region::new(block.address, bytes)
        .filter(|own| own.start() != 0)
        .and_then(|own| own.to_pages(page_size()))
        .unwrap_or_default();
    lock(own);
    for part in before.new_regions() {
        let (start, end) = (part.start(), part.end());
        let meets = !part.intersection(own).is_empty();
        lock(Region::between(
            start,
            if meets { own.start() } else { end },
        ));
        lock(Region::between(if meets { own.end() } else { end }, end));
    }
    (block.result, outcome)
}

/// The mappings at one moment, in order of addresses.
struct MappingSnapshot {
    regions: [Region; MAX_MAPPINGS],
    count: usize,
}

impl MappingSnapshot {
    /// Takes a snapshot; `None` if there are too many mappings, or if they cannot be read.
    fn now() -> Option<Self> {
        let mut snapshot = Self {
            regions: [Region::default(); MAX_MAPPINGS],
            count: 0,
        };
        let mut fits = true;
        mapping::for_each(Region::between(0, usize::MAX), |mapping| {
            match snapshot.regions.get_mut(snapshot.count) {
                Some(place) => {
                    *place = mapping.region;
                    snapshot.count += 1;
                    ControlFlow::Continue(())
                }
                None => {
                    fits = false;
                    ControlFlow::Break(())
                }
            }
        })
        .ok()?;
        fits.then_some(snapshot)
    }

    /// Returns the regions that are mapped now but not in the snapshot.
    fn new_regions(&self) -> impl Iterator<Item = Region> {
        let mut parts = [Region::default(); MAX_NEW];
        let mut count = 0;
        let mut add = |part: Region| {
            if let Some(place) = parts.get_mut(count).filter(|_| !part.is_empty()) {
                *place = part;
                count += 1;
            }
        };
        let _ = mapping::for_each(Region::between(0, usize::MAX), |mapping| {
            self.without(mapping.region, &mut add);
            ControlFlow::Continue(())
        });
        parts.into_iter().take(count)
    }

    /// Calls `each` for the parts of a region that are not in the snapshot.
    fn without(&self, region: Region, each: &mut impl FnMut(Region)) {
        let snapshot = self.regions.get(..self.count).unwrap_or_default();
        let first = snapshot.partition_point(|one| one.end() <= region.start());
        let mut start = region.start();
        for one in snapshot.iter().skip(first) {
            if one.start() >= region.end() {
                break;
            }
            each(Region::between(start, one.start()));
            start = start.max(one.end());
        }
        each(Region::between(start, region.end()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(regions: &[(usize, usize)]) -> MappingSnapshot {
        let mut snapshot = MappingSnapshot {
            regions: [Region::default(); MAX_MAPPINGS],
            count: regions.len(),
        };
        for (place, (start, end)) in snapshot.regions.iter_mut().zip(regions) {
            *place = Region::between(*start, *end);
        }
        snapshot
    }

    fn parts(snapshot: &MappingSnapshot, start: usize, end: usize) -> Vec<(usize, usize)> {
        let mut parts = Vec::new();
        snapshot.without(Region::between(start, end), &mut |part: Region| {
            if !part.is_empty() {
                parts.push((part.start(), part.end()));
            }
        });
        parts
    }

    #[test]
    fn new_parts_are_those_outside_the_snapshot() {
        let snapshot = snapshot(&[(10, 20), (20, 25), (40, 50)]);
        assert_eq!(parts(&snapshot, 10, 20), []);
        assert_eq!(parts(&snapshot, 12, 24), []);
        assert_eq!(parts(&snapshot, 0, 60), [(0, 10), (25, 40), (50, 60)]);
        assert_eq!(parts(&snapshot, 24, 30), [(25, 30)]);
        assert_eq!(parts(&snapshot, 30, 35), [(30, 35)]);
        assert_eq!(parts(&snapshot, 45, 70), [(50, 70)]);
    }

    fn map(bytes: usize) -> Result<usize, rustix::io::Errno> {
        system::mmap(&crate::plain::Mmap {
            address: 0,
            length: bytes,
            protection: (libc::PROT_READ | libc::PROT_WRITE).into(),
            flags: (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS).into(),
            descriptor: -1,
            offset: 0,
        })
    }

    fn resident_pages(address: usize, bytes: usize) -> usize {
        let mut there = [0_u8; 1024];
        let pages = bytes / rustix::param::page_size();
        assert!(pages <= there.len());
        let arguments = [address, bytes, there.as_mut_ptr().addr()];
        system::call(libc::SYS_mincore, arguments).unwrap();
        there.iter().filter(|page| **page & 1 == 1).count()
    }

    /// True if smaps shows the mapping at an address as locked.
    fn is_locked(address: usize) -> bool {
        let start = mapping::at(address).unwrap().region.start();
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let begin = format!("{start:08x}-");
        let from = text.lines().skip_while(|line| !line.starts_with(&begin));
        let flags = from.skip(1).find(|line| line.starts_with("VmFlags:"));
        flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "lo"))
    }

    /// Runs the test in a separate process, whose locks do not affect other tests.
    fn in_child(look: fn() -> bool) -> bool {
        // SAFETY: the child has only this thread, and exits at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let good = std::panic::catch_unwind(look).unwrap_or(false);
            // SAFETY: ends the child.
            unsafe { libc::_exit(if good { 7 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: the child was created above.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7
    }

    #[test]
    fn allocated_memory_is_populated_and_locked_as_by_the_plain_call() {
        assert!(in_child(|| {
            const BYTES: usize = 2 << 20;
            let pages = BYTES / rustix::param::page_size();
            let state = State::new();
            let mut policy = Policy {
                huge: false,
                aligned_beside_others: true,
                ..Policy::default()
            };
            policy.settings.straight_below = 1 << 20;
            let locked = super::super::mlockall(&policy, &state, libc::MCL_FUTURE);
            if locked.result.is_err() {
                eprintln!("skipped: this user may not lock memory");
                return true;
            }
            let (address, outcome) = allocate(&policy, &state, BYTES, || {
                let address = map(BYTES).unwrap();
                // The kernel has populated no pages: that is left to helpers.
                assert_eq!(resident_pages(address, BYTES), 0);
                Block {
                    result: address,
                    address,
                }
            });
            let outcome = outcome.unwrap();
            let ours = resident_pages(address, BYTES);
            // The kernel populates the next mapping again.
            let next = map(BYTES).unwrap();
            outcome.bytes >= BYTES
                && ours == pages
                && is_locked(address)
                && resident_pages(next, BYTES) == pages
        }));
    }
}
