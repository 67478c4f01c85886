//! The end of a process.

use std::ffi::c_int;
use std::ops::ControlFlow;

use rustix::param::page_size;

use super::HeldSignals;
use super::pieces::{Pieces, dropping};
use super::system;
use super::{State, settings};
use crate::engine::Outcome;
use crate::machine::read_text;
use crate::mapping::{self, Mapping};
use crate::policy::Policy;
use crate::region::Region;

/// What became of a process's memory at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// What helpers did; `None` if nothing.
    pub outcome: Option<Outcome>,
    /// Whether private memory is gone. Then the process must end at once, without
    /// another step in code that may use any.
    pub is_final: bool,
}

/// Who else uses the memory of this thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Users {
    /// Nobody.
    None,
    /// Other threads of this process.
    Threads,
    /// Another process, as between vfork and exec; or the kernel does not say.
    Unknown,
}

/// Gives large memory back, as the end of the process would, with helpers. `keep` are
/// addresses in memory that is used until the end; the caller's stack is kept anyway.
///
/// Shared memory stays what it is for others. Private memory is given back only if nobody
/// else uses it, neither threads nor a parent that waits in vfork, and only if `last_steps`
/// are given: what the process does before that, and true if it then ends. And only what
/// the program has mapped itself: debuggers and emulators may have memory of theirs in it.
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
    let give_private = users == Users::None
        && private >= least
        && state.private().iter().next().is_some()
        && !has_devices()
        && last_steps.is_some_and(|last_steps| last_steps());
    let give_shared = users != Users::Unknown && shared >= least;
    if !give_private && !give_shared {
        return End::default();
    }
    let held = HeldSignals::hold();
    let settings = settings(policy, &held);
    let mut pieces = Pieces::new(&settings, dropping());
    let here = (&raw const held).addr();
    let is_kept = |region: Region| {
        let within = |address: usize| (region.start()..region.end()).contains(&address);
        within(here) || keep.iter().copied().any(within)
    };
    let mut is_final = false;
    let _ = mapping::for_each(Region::between(0, usize::MAX), |mapping| {
        if mapping.shared {
            if give_shared && mapping.of_memory && mapping.region.length() >= least {
                pieces.add(mapping.region);
            }
        } else if give_private && is_anonymous(&mapping) && !is_kept(mapping.region) {
            for (noted, _) in state.private().iter() {
                let part = mapping.region.intersection(noted);
                is_final |= !part.is_empty();
                pieces.add(part);
            }
        }
        ControlFlow::Continue(())
    });
    End {
        outcome: pieces.finish(),
        is_final,
    }
}

fn is_anonymous(mapping: &Mapping) -> bool {
    !mapping.of_file && !mapping.special && mapping.writable
}

/// Whether something is mapped through which the kernel or a device may read private memory
/// until the process has ended, such as the rings of io_uring.
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

/// Bytes of private and of shared memory that this process has in its page tables.
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

/// Whether this thread is the only user of its memory.
pub(super) fn is_alone() -> bool {
    users() == Users::None
}

/// Whether this thread holds locks of which the kernel tells others at its end: it finds
/// them by a list that may go through private memory (exit_robust_list of kernel/futex).
fn holds_robust_locks() -> bool {
    let (mut head, mut length) = (0_usize, 0_usize);
    let arguments = [0, (&raw mut head).addr(), (&raw mut length).addr()];
    if system::call(libc::SYS_get_robust_list, arguments).is_err() {
        return true;
    }
    if head == 0 {
        return false;
    }
    // SAFETY: the list that the C library registered for this thread begins with a
    // pointer, to itself where it is empty.
    let first = unsafe { std::ptr::with_exposed_provenance::<usize>(head).read() };
    first != head
}

/// unshare(2) of memory does nothing, but fails where there is something to unshare
/// (check_unshare_flags of kernel/fork.c).
fn users() -> Users {
    let alone = |flag: c_int| system::call(libc::SYS_unshare, [flag as usize]);
    if alone(libc::CLONE_VM).is_ok() && !holds_robust_locks() {
        Users::None
    } else if alone(libc::CLONE_THREAD) == Err(rustix::io::Errno::INVAL) {
        Users::Threads
    } else {
        Users::Unknown
    }
}
