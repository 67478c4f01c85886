//! Record of a process's state, maintained by its calls.

use std::ffi::CStr;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::param::page_size;

use super::region_table::RegionTable;
use crate::region::Region;

/// Number of recorded segments; ids that are in use at the same time differ in their lowest
/// bits (ipc_buildid of ipc/util.c).
const SEGMENTS: usize = 256;

/// Record of a process's state, maintained by its calls. Entries that do not fit are dropped,
/// and their calls are plain.
#[derive(Debug)]
pub struct State {
    /// Indexed by the lowest bits of the id; each entry has the rest of the id, and the kind.
    segments: [AtomicU64; SEGMENTS],
    /// Regions where segments are attached, with their ids.
    attachments: RegionTable,
    /// Private memory that the program itself has mapped.
    private: RegionTable,
    /// A word with a [`Future`]. It is on a page that is zeroed in the child of a fork, since
    /// locks are not inherited.
    future: AtomicPtr<AtomicU32>,
    large: AtomicBool,
    program: OnceLock<&'static CStr>,
    time_to_halt: OnceLock<Duration>,
}

/// Kind of a segment, known from the call that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Segment {
    /// Too small for helpers.
    Small = 1,
    /// Created by this process; may be populated.
    Ours = 2,
    /// Any other: created by another process, or not to be populated.
    Other = 3,
}

/// Effect of mlockall(2) on future mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Future {
    /// They are not locked.
    Free = 0,
    /// They are locked and populated.
    Locked = 1,
    /// Their pages are locked as they are faulted in. Mapping does not populate them, not even
    /// with MAP_POPULATE (populate_vma_page_range of mm/gup.c).
    OnFault = 2,
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// Returns the state of a process that has made no calls yet.
    pub const fn new() -> Self {
        Self {
            segments: [const { AtomicU64::new(0) }; SEGMENTS],
            attachments: RegionTable::new(),
            private: RegionTable::new(),
            future: AtomicPtr::new(ptr::null_mut()),
            large: AtomicBool::new(false),
            program: OnceLock::new(),
            time_to_halt: OnceLock::new(),
        }
    }

    /// Sets the reaper's program, an absolute path. Without one no reaper is started.
    pub fn set_program(&self, program: &'static CStr) {
        self.program.get_or_init(|| program);
    }

    pub(super) fn program(&self) -> Option<&'static CStr> {
        self.program.get().copied()
    }

    /// Sets the time that the end of the process waits for its threads to halt. The default
    /// depends on the size of its memory.
    pub fn set_time_to_halt(&self, time: Duration) {
        self.time_to_halt.get_or_init(|| time);
    }

    pub(super) fn time_to_halt(&self) -> Option<Duration> {
        self.time_to_halt.get().copied()
    }

    /// Records that the process, or its parent before a fork, has large memory.
    pub(super) fn note_large(&self) {
        self.large.store(true, Ordering::Relaxed);
    }

    /// True if the process ever had large memory.
    #[inline]
    pub fn has_large(&self) -> bool {
        self.large.load(Ordering::Relaxed)
    }

    pub(super) fn note_segment(&self, id: i32, segment: Segment) {
        if let Some(slot) = self.slot(id) {
            let value = u64::from(id as u32) << 32 | segment as u64;
            slot.store(value, Ordering::Relaxed);
        }
    }

    /// Returns the kind of a segment; [`Segment::Other`] if it is not recorded.
    #[inline]
    pub(super) fn segment(&self, id: i32) -> Segment {
        let seen = self.slot(id).map_or(0, |slot| slot.load(Ordering::Relaxed));
        match seen as u32 {
            _ if seen >> 32 != u64::from(id as u32) => Segment::Other,
            known if known == Segment::Small as u32 => Segment::Small,
            known if known == Segment::Ours as u32 => Segment::Ours,
            _ => Segment::Other,
        }
    }

    /// True if a segment is known to be too small for helpers.
    #[inline]
    pub fn is_small_segment(&self, id: i32) -> bool {
        self.segment(id) == Segment::Small
    }

    fn slot(&self, id: i32) -> Option<&AtomicU64> {
        self.segments.get(id as u32 as usize % SEGMENTS)
    }

    /// Records that a segment is attached in a region.
    pub(super) fn note_attachment(&self, id: i32, region: Region) {
        self.attachments.note(region, id as u32);
    }

    /// Removes and returns the record of the segment that is attached at an address.
    pub(super) fn take_attachment(&self, address: usize) -> Option<(i32, Region)> {
        let (region, id) = self.attachments.take(address)?;
        Some((id as i32, region))
    }

    /// Returns a region where a segment is attached.
    pub(super) fn attachment_of(&self, id: i32) -> Option<Region> {
        let mut attached = self.attachments.iter();
        attached.find_map(|(region, other)| (other == id as u32).then_some(region))
    }

    /// Records that the program unmaps memory.
    pub fn note_unmapped(&self, address: usize, length: usize) {
        if let Some(region) = Region::new(address, length) {
            self.private.forget(region);
        }
    }

    /// Returns the large private anonymous memory that the program has mapped.
    pub(super) fn private(&self) -> &RegionTable {
        &self.private
    }

    /// Allocates the page for [`State::note_future`]. Must be called before the process locks
    /// its future mappings: otherwise that page would be locked too.
    pub(super) fn prepare_future(&self) {
        if self.future.load(Ordering::Acquire).is_null() {
            let word = fork_sensitive_word();
            // If two threads get here at the same time, one superfluous page stays.
            let _ = self.future.compare_exchange(
                ptr::null_mut(),
                word,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
    }

    /// Records the effect of mlockall on future mappings.
    pub(super) fn note_future(&self, future: Future) {
        if future != Future::Free {
            self.prepare_future();
        }
        let word = self.future.load(Ordering::Acquire);
        if !word.is_null() {
            // SAFETY: the page is never unmapped.
            unsafe { &*word }.store(future as u32, Ordering::Relaxed);
        }
    }

    /// Returns the effect of mlockall on mappings created now.
    pub(super) fn future(&self) -> Future {
        let word = self.future.load(Ordering::Acquire);
        if word.is_null() {
            return Future::Free;
        }
        // SAFETY: the page is never unmapped.
        match unsafe { &*word }.load(Ordering::Relaxed) {
            known if known == Future::Locked as u32 => Future::Locked,
            known if known == Future::OnFault as u32 => Future::OnFault,
            _ => Future::Free,
        }
    }
}

/// Returns a word that is 0 in the child of a fork; null if the kernel does not support such
/// memory.
pub(super) fn fork_sensitive_word() -> *mut AtomicU32 {
    // SAFETY: creates a new mapping at an address that the kernel chooses.
    let page = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            page_size(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    };
    let Ok(page) = page else {
        return ptr::null_mut();
    };
    // SAFETY: the page belongs to this function.
    match unsafe { madvise(page, page_size(), Advice::LinuxWipeOnFork) } {
        Ok(()) => page.cast(),
        Err(_) => ptr::null_mut(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_found_by_id() {
        let state = State::new();
        state.note_segment(3, Segment::Ours);
        assert_eq!(state.segment(3), Segment::Ours);
        assert_eq!(state.segment(3 + SEGMENTS as i32), Segment::Other);
        state.note_segment(3 + SEGMENTS as i32, Segment::Small);
        assert_eq!(state.segment(3), Segment::Other);
        assert_eq!(state.segment(0), Segment::Other);
    }

    #[test]
    fn locks_are_not_inherited() {
        let state = State::new();
        assert_eq!(state.future(), Future::Free);
        state.note_future(Future::Free);
        assert!(state.future.load(Ordering::Relaxed).is_null());
        state.note_future(Future::Locked);
        assert_eq!(state.future(), Future::Locked);
        // SAFETY: the child only reads a word and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child, which has nothing else to do.
            unsafe { libc::_exit(state.future() as i32) };
        }
        let mut status = 0;
        // SAFETY: the child belongs to this test.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
        assert_eq!(state.future(), Future::Locked);
        state.note_future(Future::Free);
        assert_eq!(state.future(), Future::Free);
    }
}
