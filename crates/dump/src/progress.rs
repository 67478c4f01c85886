//! How far a dump has come, for whoever wants to show it.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// What is being done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Headers and VMCOREINFO.
    #[default]
    Opening,
    /// Struct pages.
    Filtering,
    /// Pages: read, compress, write.
    Copying,
    /// Making the output durable.
    Finishing,
}

impl Phase {
    const ALL: [Self; 4] = [
        Self::Opening,
        Self::Filtering,
        Self::Copying,
        Self::Finishing,
    ];

    /// A word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Opening => "open",
            Self::Filtering => "filter",
            Self::Copying => "copy",
            Self::Finishing => "finish",
        }
    }
}

/// What helpers may have to wait for, beside the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The output takes bytes.
    Write,
    /// The output makes them durable.
    Sync,
}

/// How far the work has come; helpers write it, anybody reads it.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
    written: AtomicU64,
    /// How many are inside of each [`Doing`].
    inside: [AtomicU32; 2],
}

impl Progress {
    /// Nothing done yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is being done.
    pub fn phase(&self) -> Phase {
        let index = usize::from(self.phase.load(Ordering::Relaxed));
        Phase::ALL.get(index).copied().unwrap_or_default()
    }

    /// Page frames done in this phase, and all of them.
    pub fn frames(&self) -> (u64, u64) {
        (
            self.done.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// How many helpers are writing now, and how many wait for what was
    /// written to be durable. All others read or work.
    pub fn inside(&self, doing: Doing) -> u32 {
        self.inside[doing as usize].load(Ordering::Relaxed)
    }

    /// Counts the caller as one who does this until the result is dropped.
    pub(crate) fn doing(&self, doing: Doing) -> impl Drop {
        let count = &self.inside[doing as usize];
        count.fetch_add(1, Ordering::Relaxed);
        Inside(count)
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

/// Who is counted; not any more when it is dropped.
struct Inside<'a>(&'a AtomicU32);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
