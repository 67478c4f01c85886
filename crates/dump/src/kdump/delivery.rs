//! Brings finished units to the output.
//!
//! A file has the page cache behind it, so helpers write to it themselves.
//! Where a write may take as long as the disk or the reader of a pipe does, a
//! writer of its own does it, and the helpers go on with the next unit.

use std::io;
use std::sync::Mutex;

use bigiron_helpers::{BoundedQueue, Stop, processor_count};

use super::adaptive::{Controller, Step};
use super::copy::Copy;
use super::thread_time::ThreadClock;
use super::unit::Unit;
use crate::error::DumpError;
use crate::summary::{Summary, Waits};

/// Units that wait to be written, at least.
const LEAST_QUEUED: usize = 6;
/// One more for so many helpers.
const HELPERS_PER_QUEUED: usize = 4;

/// Units on their way to the writer, and back to be filled again.
pub(super) struct WriteQueue {
    filled: BoundedQueue<Unit>,
    empty: Mutex<Vec<Unit>>,
    capacity: usize,
    /// Chooses the compression by what the queue shows.
    pub(super) controller: Option<Controller>,
}

impl WriteQueue {
    pub(super) fn new(helpers: usize, adaptive: bool) -> Self {
        let capacity = queued_units(helpers);
        Self {
            filled: BoundedQueue::new(capacity, u64::MAX),
            empty: Mutex::new(Vec::new()),
            capacity,
            controller: adaptive.then(|| Controller::new(helpers, processor_count())),
        }
    }

    /// How the next unit is to be compressed, where that is adaptive.
    pub(super) fn next_step(&self) -> Step {
        match &self.controller {
            Some(controller) => controller.next(self.filled.len(), self.capacity),
            None => Step::FIRST,
        }
    }

    /// Gives `unit` to the writer, and an empty one back in its place.
    pub(super) fn push(&self, unit: &mut Unit, page_size: usize, stop: &Stop) {
        let empty = self.lock().pop();
        let full = std::mem::replace(unit, empty.unwrap_or_else(|| Unit::new(page_size)));
        let weight = full.data_len();
        // A queue that takes nothing more belongs to a dump that ends.
        let _ = self.filled.push(full, weight, stop);
    }

    /// No more units come.
    pub(super) fn close(&self) {
        self.filled.close();
    }

    /// The writer: writes units in the order in which they come.
    pub(super) fn write_all(&self, copy: &Copy) -> Result<(), DumpError> {
        let task = copy.task;
        let clock = ThreadClock::new();
        while let Some(mut unit) = self.filled.pop(task.stop) {
            self.write(copy, &mut unit, &clock)
                .map_err(|error| task.write_error(error))?;
            self.lock().push(unit);
        }
        Ok(())
    }

    fn write(&self, copy: &Copy, unit: &mut Unit, clock: &ThreadClock) -> io::Result<()> {
        let begin = clock.now();
        let (offset, len) = unit.write(copy)?;
        if let Some(controller) = &self.controller {
            // It has to see the speed of the disk, not of the page cache.
            copy.output.flush_behind(offset, len)?;
            controller.written(len, clock.since(begin));
        }
        Ok(())
    }

    /// Notes who waited for whom, and how much was compressed how.
    pub(super) fn report(&self, summary: &mut Summary) {
        let waits = self.filled.waits();
        summary.waits = Some(Waits {
            for_output: waits.for_room,
            for_helpers: waits.for_work,
        });
        if let Some(controller) = &self.controller {
            summary.adaptive = controller.taken();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Unit>> {
        self.empty
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

/// Units that wait in the queue of a dump with so many helpers, at most.
pub(super) fn queued_units(helpers: usize) -> usize {
    LEAST_QUEUED.max(helpers / HELPERS_PER_QUEUED)
}
