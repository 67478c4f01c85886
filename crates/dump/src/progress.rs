//! Progress of a dump, as shown by displays and watchdogs.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A phase of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Reads headers and VMCOREINFO.
    #[default]
    Opening,
    /// Reads struct pages and decides which pages are kept.
    Filtering,
    /// Reads, compresses and writes pages.
    Copying,
    /// Makes the output durable and names it.
    Finishing,
}

impl Phase {
    const ALL: [Self; 4] = [
        Self::Opening,
        Self::Filtering,
        Self::Copying,
        Self::Finishing,
    ];

    /// Name of the phase in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Opening => "open",
            Self::Filtering => "filter",
            Self::Copying => "copy",
            Self::Finishing => "finish",
        }
    }
}

/// A call to the output that may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputCall {
    /// Writes bytes.
    Write,
    /// Waits until bytes are durable.
    Sync,
}

/// Progress counters; helpers update them, any thread may read them.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
    written: AtomicU64,
    /// Number of threads inside each [`OutputCall`].
    in_flight: [AtomicU32; 2],
}

impl Progress {
    /// Creates counters of a dump that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the current phase.
    pub fn phase(&self) -> Phase {
        let index = usize::from(self.phase.load(Ordering::Relaxed));
        Phase::ALL.get(index).copied().unwrap_or_default()
    }

    /// Returns the page frames done in this phase, and their total.
    pub fn frames(&self) -> (u64, u64) {
        (
            self.done.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }

    /// Returns the number of bytes written so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns the number of threads that are inside `call` now. All other helpers read or
    /// compute.
    pub fn in_flight(&self, call: OutputCall) -> u32 {
        self.in_flight[call as usize].load(Ordering::Relaxed)
    }

    /// Counts the caller as being inside `call` until the guard is dropped.
    pub(crate) fn enter(&self, call: OutputCall) -> impl Drop {
        let count = &self.in_flight[call as usize];
        count.fetch_add(1, Ordering::Relaxed);
        CallGuard(count)
    }

    /// Begins a phase of `total` page frames.
    pub(crate) fn begin(&self, phase: Phase, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        let index = Phase::ALL
            .iter()
            .position(|other| *other == phase)
            .unwrap_or(0);
        self.phase.store(index as u8, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, frames: u64) {
        self.done.fetch_add(frames, Ordering::Relaxed);
    }

    pub(crate) fn add_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Guard; decrements the count on drop.
struct CallGuard<'a>(&'a AtomicU32);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
