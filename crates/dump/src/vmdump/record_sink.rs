//! Writes records to the parts of a vmdump.
//!
//! In a dump of one part helpers write themselves. The parts of a striped dump have a writer
//! thread each, so that all of them are written at the same time.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

use bigiron_helpers::{BoundedQueue, Stop, run_beside};

use super::packed::{Buffers, PlacedRecord};
use crate::error::DumpError;
use crate::options::DumpOptions;
use crate::output::Part;

/// Bounds of the number of chunks that wait for the writer of a part.
const QUEUED: RangeInclusive<u64> = 2..=8;

/// Returns the maximum number of chunks that wait for the writer of each of `parts` parts: as many
/// as a quarter of the dump's memory holds.
pub(super) fn queue_capacity(options: &DumpOptions, chunk_bytes: u32, parts: usize) -> u64 {
    let chunks = options.memory.bytes() / 4 / u64::from(chunk_bytes.max(1));
    let each = chunks / (parts as u64).max(1);
    each.saturating_sub(1).clamp(*QUEUED.start(), *QUEUED.end())
}

/// Writes records to the parts of a vmdump.
pub(super) struct RecordSink<'a> {
    parts: &'a [Part<'a>],
    /// Queues to the writers; none for a dump of one part.
    queues: Vec<PartQueue>,
    pub(super) buffers: Buffers,
    stop: &'a Stop,
}

/// The queue to the writer of one part.
struct PartQueue {
    records: BoundedQueue<PlacedRecord>,
    /// False if the system refused a thread; helpers then write themselves.
    has_writer: AtomicBool,
}

impl<'a> RecordSink<'a> {
    /// Creates a sink; up to `capacity` chunks wait for each writer.
    pub(super) fn new(parts: &'a [Part<'a>], capacity: u64, stop: &'a Stop) -> Self {
        let queue = |_| PartQueue {
            records: BoundedQueue::new(capacity as usize, u64::MAX),
            has_writer: AtomicBool::new(false),
        };
        let queues = if parts.len() > 1 { parts.len() } else { 0 };
        Self {
            parts,
            queues: (0..queues).map(queue).collect(),
            buffers: Buffers::default(),
            stop,
        }
    }

    /// True if records must be passed in the order in which they were placed: always for a
    /// striped dump, so that each part grows without holes.
    pub(super) fn is_in_order(&self) -> bool {
        self.parts.len() > 1 || self.parts.iter().any(Part::is_stream)
    }

    /// Writes all records or passes them to the writers, and reuses their buffers.
    pub(super) fn put(&self, records: &mut Vec<PlacedRecord>) -> Result<(), DumpError> {
        records
            .drain(..)
            .try_for_each(|record| self.put_one(record))
    }

    fn put_one(&self, record: PlacedRecord) -> Result<(), DumpError> {
        let queue = self.queues.get(record.part);
        if let Some(queue) = queue.filter(|queue| queue.has_writer.load(Ordering::Relaxed)) {
            let weight = record.bytes.len() as u64;
            let pushed = queue.records.push(record, weight, self.stop);
            return pushed.map_err(|_| DumpError::Interrupted { kept: None });
        }
        self.write(record)
    }

    fn write(&self, record: PlacedRecord) -> Result<(), DumpError> {
        self.parts[record.part].write_at(record.offset, &record.bytes)?;
        self.buffers.give(record.bytes);
        Ok(())
    }

    /// Runs `work`, which puts all records except the last one of each part. They are written
    /// when this returns.
    pub(super) fn run(
        &self,
        work: &mut dyn FnMut() -> Result<(), DumpError>,
    ) -> Result<(), DumpError> {
        self.run_writers(0, work)
    }

    /// Runs `work` and the writers of all parts from `first` on.
    fn run_writers(
        &self,
        first: usize,
        work: &mut dyn FnMut() -> Result<(), DumpError>,
    ) -> Result<(), DumpError> {
        let Some(queue) = self.queues.get(first) else {
            let result = work();
            // All at once, so that the writers sync at the same time.
            self.queues.iter().for_each(|queue| queue.records.close());
            return result;
        };
        let writer = || self.write_queued(queue, &self.parts[first]);
        let others = |has_writer| {
            queue.has_writer.store(has_writer, Ordering::Relaxed);
            self.run_writers(first + 1, work)
        };
        run_beside(self.stop, writer, others).map(|_| ())
    }

    /// The writer of one part: writes records in the order in which they arrive.
    fn write_queued(&self, queue: &PartQueue, part: &Part) -> Result<(), DumpError> {
        while let Some(record) = queue.records.pop(self.stop) {
            self.write(record)?;
        }
        match self.stop.is_set() {
            true => Ok(()),
            false => part.sync(),
        }
    }
}
