//! The end of a process.

use std::ffi::c_int;
use std::ops::ControlFlow;
use std::time::Duration;

use rustix::param::page_size;

use super::HeldSignals;
use super::halt::{count_threads, halt_others, holds_robust_locks};
use super::region_list::{RegionList, dropping};
use super::system;
use super::{State, settings};
use crate::engine::Outcome;
use crate::machine::read_text;
use crate::mapping::{self, Mapping};
use crate::policy::Policy;
use crate::region::Region;

/// Result of [`end_of_process`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Outcome of the helpers' work; `None` if they did none.
    pub outcome: Option<Outcome>,
    /// True if private memory is freed, or other threads are halted for good. The process must
    /// then end at once, without running code that may use private memory or wait for these
    /// threads.
    pub is_final: bool,
}

/// Halting a thread takes 50 microseconds, in which the kernel alone frees a MiB. Private
/// memory must therefore exceed the minimum size for helpers by this factor plus the number of
/// threads.
const TIMES: usize = 8;

/// Returns the time limit for halting other threads: a tenth of the time in which the kernel
/// alone frees this many bytes in small pages, plus a short minimum.
fn time_to_halt(bytes: usize) -> Duration {
    const MIN_TIME: Duration = Duration::from_millis(10);
    MIN_TIME + Duration::from_nanos((bytes / 100) as u64)
}

/// True if most of the process's `bytes` of private memory are in huge pages: it had far fewer
/// page faults than the memory has small pages. With huge pages the kernel alone has finished
/// before helpers have started. The same holds for the child of a fork, whose pages are its
/// parent's.
fn is_of_huge_pages(bytes: usize) -> bool {
    /// Maximum number of small pages in a page of a size chosen by the kernel (mTHP) that still
    /// counts as small.
    const MAX_SMALL_PAGES: usize = 64;
    // SAFETY: all fields are numbers, for which zeros are valid.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    let arguments = [libc::RUSAGE_SELF as usize, (&raw mut used).addr()];
    if system::call(libc::SYS_getrusage, arguments).is_err() {
        return false;
    }
    let faults = used.ru_minflt.saturating_add(used.ru_majflt);
    usize::try_from(faults).unwrap_or(0) < bytes / page_size() / MAX_SMALL_PAGES
}

/// Other users of this thread's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Users {
    /// No other users.
    None,
    /// Other threads of this process.
    Threads,
    /// Another process, as between vfork and exec; or the kernel does not report it.
    Unknown,
}

/// Frees large memory with helpers, as the end of the process would. `keep` contains addresses
/// in memory that is used until the end; the caller's stack is always kept.
///
/// Shared memory stays unchanged for others. Private memory is freed only if no other process
/// uses it (such as a parent that waits in vfork), if other threads can be halted, and if
/// `last_steps` is given and returns true. It does the remaining work of the process, which
/// must end afterwards. Only memory that the program itself has mapped is freed: debuggers and
/// emulators may have their own memory in the process.
pub fn end_of_process(
    policy: &Policy,
    state: &State,
    last_steps: Option<fn() -> bool>,
    keep: &[usize],
) -> End {
    if !policy.enabled || !policy.exit || !state.has_large() {
        return End::default();
    }
    let least = policy.settings.straight_below;
    let Some((private, shared)) = resident() else {
        return End::default();
    };
    if private.max(shared) < least {
        return End::default();
    }
    let users = users();
    let least_private = match users {
        Users::None => least,
        Users::Threads => least.saturating_mul(count_threads().saturating_add(TIMES)),
        Users::Unknown => usize::MAX,
    };
    let ends = private >= least_private
        && !is_of_huge_pages(private)
        && state.private().iter().next().is_some()
        && !has_devices()
        && last_steps.is_some_and(|last_steps| last_steps());
    let give_shared = users != Users::Unknown && shared >= least;
    if !ends && !give_shared {
        return End::default();
    }
    let held = HeldSignals::hold();
    let mut is_final = ends && users == Users::Threads;
    let time = state
        .time_to_halt()
        .unwrap_or_else(|| time_to_halt(private));
    let give_private = ends && (!is_final || halt_others(&held, time));
    let settings = settings(policy, &held);
    let mut regions = RegionList::new(&settings, dropping());
    let here = (&raw const held).addr();
    let is_kept = |region: Region| {
        let within = |address: usize| (region.start()..region.end()).contains(&address);
        within(here) || keep.iter().copied().any(within)
    };
    let _ = mapping::for_each(Region::between(0, usize::MAX), |mapping| {
        if mapping.shared {
            if give_shared && mapping.of_memory && mapping.region.length() >= least {
                regions.add(mapping.region);
            }
        } else if give_private && is_anonymous(&mapping) && !is_kept(mapping.region) {
            for (noted, _) in state.private().iter() {
                let part = mapping.region.intersection(noted);
                is_final |= !part.is_empty();
                regions.add(part);
            }
        }
        ControlFlow::Continue(())
    });
    End {
        outcome: regions.finish(),
        is_final,
    }
}

fn is_anonymous(mapping: &Mapping) -> bool {
    !mapping.of_file && !mapping.special && mapping.writable
}

/// True if a mapping exists through which the kernel or a device may read private memory until
/// the process has ended, such as the rings of io_uring.
fn has_devices() -> bool {
    let mut found = false;
    let seen = mapping::for_each(Region::between(0, usize::MAX), |mapping| {
        found = mapping.shared && mapping.of_device;
        if found {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    found || seen.is_err()
}

/// Returns the bytes of private and of shared memory in the page tables of this process.
fn resident() -> Option<(usize, usize)> {
    let mut text = [0; 128];
    let mut numbers = read_text(c"/proc/thread-self/statm", &mut text)
        .ok()?
        .split_ascii_whitespace()
        .map(|number| number.parse::<usize>().unwrap_or(0));
    let (_, all, shared) = (numbers.next()?, numbers.next()?, numbers.next()?);
    Some((
        all.saturating_sub(shared) * page_size(),
        shared * page_size(),
    ))
}

/// True if this thread is the only user of its memory.
pub(super) fn is_alone() -> bool {
    users() == Users::None
}

/// Determines the users by unshare(2), which does nothing here, but fails if there is something
/// to unshare (check_unshare_flags of kernel/fork.c).
fn users() -> Users {
    let alone = |flag: c_int| system::call(libc::SYS_unshare, [flag as usize]);
    if alone(libc::CLONE_VM).is_ok() && !holds_robust_locks(0) {
        Users::None
    } else if alone(libc::CLONE_THREAD) == Err(rustix::io::Errno::INVAL) {
        Users::Threads
    } else {
        Users::Unknown
    }
}
