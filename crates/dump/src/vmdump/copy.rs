//! The second pass: helpers compress chunks, and write them as they are placed.

use std::sync::{Mutex, MutexGuard};

use bigiron_format::vmdump::{ChunkCompressor, VmdumpHeader};
use bigiron_helpers::{WorkCursor, run};
use bigiron_kernel::Filter;

use super::Packing;
use super::helper::Helper;
use super::in_order::InOrder;
use super::piece_sink::{Buffers, PieceSink};
use super::place::{Packed, Piece, Placer};
use crate::bitmaps::BitmapStore;
use crate::core_map::CoreMap;
use crate::error::DumpError;
use crate::losses::Losses;
use crate::plan::Plan;
use crate::summary::Summary;
use crate::task::Task;

/// Finished chunks for each helper that may wait for an earlier one.
pub(super) const AHEAD: u64 = 3;

/// What all helpers share.
pub(super) struct Copy<'a, 's> {
    pub(super) task: &'a Task<'a, 's>,
    pub(super) filter: &'a Filter<'a, 's>,
    pub(super) sink: &'a dyn PieceSink,
    pub(super) plan: &'a Plan,
    pub(super) store: &'a BitmapStore<'a>,
    pub(super) map: &'a CoreMap,
    pub(super) header: &'a VmdumpHeader,
    pub(super) packing: Packing,
    pub(super) placer: Mutex<Placer>,
    pub(super) buffers: Buffers,
}

impl Copy<'_, '_> {
    /// A compressor for one helper.
    pub(super) fn compressor(&self) -> Result<ChunkCompressor, DumpError> {
        Ok(self.packing.compressor()?)
    }

    /// Writes the headers of the core, then all chunks of its memory.
    pub(super) fn run(&self, summary: &mut Summary) -> Result<(), DumpError> {
        let task = self.task;
        self.headers()?;
        let chunks = self
            .map
            .pages()
            .div_ceil(u64::from(self.header.chunk_pages));
        let cursor = WorkCursor::new(chunks);
        let order = InOrder::new(AHEAD * task.helpers as u64);
        let counts = run(task.helpers, task.stop, |_| -> Result<_, DumpError> {
            let mut helper = Helper::new(self)?;
            let begin = std::time::Instant::now();
            let mut pieces = Vec::new();
            while let Some(number) = cursor.take(task.stop) {
                let (packed, dumped) = helper.chunk(number)?;
                order.put(number, packed, task.stop, |packed| {
                    self.place(packed, &mut pieces)?;
                    // A stream takes pieces in their order, a file in any.
                    if self.sink.is_in_order() {
                        self.write(&mut pieces)?;
                    }
                    Ok::<_, DumpError>(())
                })?;
                self.write(&mut pieces)?;
                task.progress.add(dumped);
            }
            Ok((helper.counts, begin.elapsed()))
        })?;
        let mut losses = Losses::default();
        for (counts, time) in counts {
            summary.zero += counts.zero;
            summary.bytes_in += counts.bytes_in;
            summary.helper_times.push(time);
            losses.merge(counts.losses);
        }
        losses.report(
            summary,
            "what is lost is marked so, and the dump as incomplete",
        );
        task.check_interrupted()
    }

    /// What stands in front of the memory, in chunks.
    fn headers(&self) -> Result<(), DumpError> {
        let mut helper = Helper::new(self)?;
        let mut position = 0;
        for part in self.map.headers.chunks(self.header.chunk_bytes() as usize) {
            let packed = helper.headers(position, part)?;
            position += part.len() as u64;
            let mut pieces = Vec::new();
            self.place(packed, &mut pieces)?;
            self.write(&mut pieces)?;
        }
        Ok(())
    }

    fn place(&self, packed: Packed, pieces: &mut Vec<Piece>) -> Result<(), DumpError> {
        Ok(self.lock().place(packed, pieces)?)
    }

    /// Writes what is left when everything was placed.
    pub(super) fn end_chunks(&self) -> Result<(), DumpError> {
        let mut pieces = self.lock().end_chunks()?;
        self.write(&mut pieces)
    }

    fn lock(&self) -> MutexGuard<'_, Placer> {
        self.placer
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Writes all pieces, and keeps their buffers.
    pub(super) fn write(&self, pieces: &mut Vec<Piece>) -> Result<(), DumpError> {
        let mut pieces = pieces.drain(..);
        pieces.try_for_each(|piece| self.sink.put(piece, &self.buffers))
    }
}
