//! What the calls remember of a process.

use std::ffi::CStr;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::param::page_size;

use super::region_table::RegionTable;
use crate::region::Region;

/// Segments that are remembered; ids that are in use at the same time differ in their
/// lowest bits (ipc_buildid of ipc/util.c).
const SEGMENTS: usize = 256;

/// What the calls remember of a process. Whatever does not fit is forgotten, and its calls
/// are plain.
#[derive(Debug)]
pub struct State {
    /// By the lowest bits of its id: the id above, what is known below.
    segments: [AtomicU64; SEGMENTS],
    /// Where segments are attached, with their ids.
    attachments: RegionTable,
    /// Private memory that the program asked for itself.
    private: RegionTable,
    /// A word that is a [`Future`]. On a page that is empty in the child of a fork, as
    /// locks are not inherited.
    future: AtomicPtr<AtomicU32>,
    large: AtomicBool,
    program: OnceLock<&'static CStr>,
    time_to_halt: OnceLock<Duration>,
}

/// What is known of a segment from the call that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Segment {
    /// Too small to be shared.
    Small = 1,
    /// Made by this process, and its pages may be made.
    Ours = 2,
    /// Another: of somebody else, or one whose pages are not to be made.
    Other = 3,
}

/// What becomes of memory that is mapped from now on, by mlockall(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Future {
    /// It is not locked.
    Free = 0,
    /// It is locked, and its pages are made.
    Locked = 1,
    /// It is locked as its pages come. Nothing makes them when it is mapped, MAP_POPULATE
    /// neither (populate_vma_page_range of mm/gup.c).
    OnFault = 2,
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// Of a process that has done nothing yet.
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

    /// Sets the program that is the reaper, an absolute path. Without one there is none.
    pub fn set_program(&self, program: &'static CStr) {
        self.program.get_or_init(|| program);
    }

    pub(super) fn program(&self) -> Option<&'static CStr> {
        self.program.get().copied()
    }

    /// Sets how long the end of the process waits for its threads to halt, instead of a time that
    /// depends on the size of its memory.
    pub fn set_time_to_halt(&self, time: Duration) {
        self.time_to_halt.get_or_init(|| time);
    }

    pub(super) fn time_to_halt(&self) -> Option<Duration> {
        self.time_to_halt.get().copied()
    }

    /// That the process, or the one that it was forked from, has large memory.
    pub(super) fn note_large(&self) {
        self.large.store(true, Ordering::Relaxed);
    }

    /// Whether it ever had.
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

    /// [`Segment::Other`] for one that is not remembered.
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

    /// Whether a segment is known to be too small to be shared.
    #[inline]
    pub fn is_small_segment(&self, id: i32) -> bool {
        self.segment(id) == Segment::Small
    }

    fn slot(&self, id: i32) -> Option<&AtomicU64> {
        self.segments.get(id as u32 as usize % SEGMENTS)
    }

    /// Remembers that a segment is attached at an address.
    pub(super) fn note_attachment(&self, id: i32, region: Region) {
        self.attachments.note(region, id as u32);
    }

    /// What is attached at an address; it is forgotten.
    pub(super) fn take_attachment(&self, address: usize) -> Option<(i32, Region)> {
        let (region, id) = self.attachments.take(address)?;
        Some((id as i32, region))
    }

    /// Where a segment is attached; one of several places.
    pub(super) fn attachment_of(&self, id: i32) -> Option<Region> {
        let mut attached = self.attachments.iter();
        attached.find_map(|(region, other)| (other == id as u32).then_some(region))
    }

    /// That the program unmaps memory now.
    pub fn note_unmapped(&self, address: usize, length: usize) {
        if let Some(region) = Region::new(address, length) {
            self.private.forget(region);
        }
    }

    /// What large private memory of no file the program has mapped, and not unmapped.
    pub(super) fn private(&self) -> &RegionTable {
        &self.private
    }

    /// Has room for [`State::note_future`]: before the process locks what it maps, or
    /// that page would be locked too.
    pub(super) fn prepare_future(&self) {
        if self.future.load(Ordering::Acquire).is_null() {
            let word = fork_sensitive_word();
            // Where two threads come here at once, one page too many stays.
            let _ = self.future.compare_exchange(
                ptr::null_mut(),
                word,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
    }

    /// What becomes of what is mapped from now on.
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

    /// What becomes of what is mapped now.
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

/// A word that is 0 in the child of a fork; null if the kernel has no such memory.
pub(super) fn fork_sensitive_word() -> *mut AtomicU32 {
    // SAFETY: a new mapping, where the kernel has room.
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
    // SAFETY: the page is this function's.
    match unsafe { madvise(page, page_size(), Advice::LinuxWipeOnFork) } {
        Ok(()) => page.cast(),
        Err(_) => ptr::null_mut(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_known_by_their_ids() {
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
        // SAFETY: the child only looks at a word and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child, of which nobody expects more.
            unsafe { libc::_exit(state.future() as i32) };
        }
        let mut status = 0;
        // SAFETY: the child is this test's.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
        assert_eq!(state.future(), Future::Locked);
        state.note_future(Future::Free);
        assert_eq!(state.future(), Future::Free);
    }
}
