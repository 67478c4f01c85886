//! The queue between the helpers and a writer thread.
//!
//! Writes to a file go to the page cache, so helpers write themselves. Where a write may take as
//! long as the disk or the reader of a pipe, a writer thread does it, and the helpers continue
//! with the next batch.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bigiron_helpers::{BoundedQueue, Stop, processor_count};

use super::adaptive::{Controller, Strength};
use super::batch::{Batch, BatchOutput};
use super::thread_time::ThreadClock;
use crate::error::DumpError;
use crate::summary::Waits;

/// Minimum capacity in batches.
const MIN_CAPACITY: usize = 6;
/// Helpers for each batch of capacity beyond the minimum.
const HELPERS_PER_BATCH: usize = 4;

/// Batches on their way to the writer, and back to be filled again.
pub(super) struct WriteQueue {
    filled: BoundedQueue<Batch>,
    empty: Mutex<Vec<Batch>>,
    capacity: usize,
    /// Chooses the compression by the length of the queue.
    pub(super) controller: Option<Controller>,
}

impl WriteQueue {
    pub(super) fn new(helpers: usize, adaptive: bool) -> Self {
        let capacity = queue_capacity(helpers);
        Self {
            filled: BoundedQueue::new(capacity, u64::MAX),
            empty: Mutex::new(Vec::new()),
            capacity,
            controller: adaptive.then(|| Controller::new(helpers, processor_count())),
        }
    }

    /// Returns the strength of compression of the next batch, if it is adaptive.
    pub(super) fn next_strength(&self) -> Strength {
        match &self.controller {
            Some(controller) => controller.next(self.filled.len(), self.capacity),
            None => Strength::FIRST,
        }
    }

    /// Passes `batch` to the writer and replaces it by an empty one.
    pub(super) fn push(&self, batch: &mut Batch, output: &BatchOutput, stop: &Stop) {
        let empty = self.lock().pop();
        let new = || Batch::new(output.page_size);
        let full = std::mem::replace(batch, empty.unwrap_or_else(new));
        let weight = full.data_len();
        // The push fails only if the dump is to stop.
        let _ = self.filled.push(full, weight, stop);
    }

    /// Ends the queue.
    pub(super) fn close(&self) {
        self.filled.close();
    }

    /// The writer thread: writes batches in the order in which they arrive.
    pub(super) fn write_all(&self, output: &BatchOutput, stop: &Stop) -> Result<(), DumpError> {
        let clock = ThreadClock::new();
        while let Some(mut batch) = self.filled.pop(stop) {
            let begin = clock.now();
            let (offset, len) = batch.write(output)?;
            if let Some(controller) = &self.controller {
                // Measures the speed of the disk, not of the page cache.
                output.part.flush_behind(offset, len)?;
                controller.written(len, clock.since(begin));
            }
            self.lock().push(batch);
        }
        Ok(())
    }

    /// Returns how long helpers and writer waited for each other.
    pub(super) fn waits(&self) -> Waits {
        let waits = self.filled.waits();
        Waits {
            for_output: waits.for_room,
            for_helpers: waits.for_work,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Batch>> {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the capacity of the queue, in batches, of a dump with `helpers` helpers.
pub(super) fn queue_capacity(helpers: usize) -> usize {
    MIN_CAPACITY.max(helpers / HELPERS_PER_BATCH)
}
