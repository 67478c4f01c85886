//! The second pass: helpers compress chunks and write them as they are placed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bigiron_format::vmdump::VmdumpHeader;
use bigiron_helpers::{WorkCursor, run};

use super::chunk_builder::ChunkBuilder;
use super::in_order::InOrder;
use super::packed::PlacedRecord;
use super::placer::Placer;
use super::record_sink::RecordSink;
use crate::core_map::CoreMap;
use crate::error::DumpError;
use crate::format::ChunkCompression;
use crate::kept_pages::KeptPages;
use crate::losses::Losses;
use crate::summary::Summary;

/// Finished chunks of each helper that may wait for an earlier one.
pub(super) const AHEAD: u64 = 3;

/// The core inside the dump, and its records.
pub struct VmdumpLayout {
    pub(super) map: CoreMap,
    pub(super) header: VmdumpHeader,
    pub(super) placer: Mutex<Placer>,
    /// Records before the first chunk.
    pub(super) first: Vec<PlacedRecord>,
}

impl VmdumpLayout {
    pub(super) fn lock_placer(&self) -> MutexGuard<'_, Placer> {
        self.placer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The second pass.
pub(super) struct ChunkCopy<'a, 's> {
    pub(super) kept: &'a KeptPages<'a, 's>,
    pub(super) layout: &'a VmdumpLayout,
    pub(super) compression: ChunkCompression,
    pub(super) sink: &'a RecordSink<'a>,
}

impl<'a> ChunkCopy<'a, '_> {
    /// Writes all chunks.
    pub(super) fn run(&self, summary: &mut Summary) -> Result<(), DumpError> {
        self.copy_headers()?;
        self.copy_memory(summary)?;
        let mut records = self.layout.lock_placer().end_chunks()?;
        self.sink.put(&mut records)
    }

    fn builder(&self) -> Result<ChunkBuilder<'a>, DumpError> {
        let VmdumpLayout { map, header, .. } = self.layout;
        ChunkBuilder::new(map, header, self.compression, &self.sink.buffers)
    }

    /// Writes the bytes before the memory, in chunks.
    fn copy_headers(&self) -> Result<(), DumpError> {
        let mut builder = self.builder()?;
        let mut position = 0;
        let chunk_bytes = self.layout.header.chunk_bytes() as usize;
        for bytes in self.layout.map.headers.chunks(chunk_bytes) {
            let packed = builder.pack_headers(position, bytes)?;
            position += bytes.len() as u64;
            let mut records = Vec::new();
            self.layout.lock_placer().place(packed, &mut records)?;
            self.sink.put(&mut records)?;
        }
        Ok(())
    }

    fn copy_memory(&self, summary: &mut Summary) -> Result<(), DumpError> {
        let (job, layout) = (self.kept.job, self.layout);
        let chunk_pages = u64::from(layout.header.chunk_pages);
        let cursor = WorkCursor::new(layout.map.pages().div_ceil(chunk_pages));
        let order = InOrder::new(AHEAD * job.helpers as u64);
        let counts = run(job.helpers, job.stop, |_| -> Result<_, DumpError> {
            let (mut builder, mut pages) = (self.builder()?, self.kept.cursor());
            let begin = Instant::now();
            let mut records = Vec::new();
            while let Some(number) = cursor.take(job.stop) {
                let (packed, dumped) = builder.pack_memory(self.kept, &mut pages, number)?;
                order.put(number, packed, job.stop, |packed| {
                    layout.lock_placer().place(packed, &mut records)?;
                    // A file takes records in any order, a stream does not.
                    if self.sink.is_in_order() {
                        self.sink.put(&mut records)?;
                    }
                    Ok::<_, DumpError>(())
                })?;
                self.sink.put(&mut records)?;
                job.progress.add(dumped);
            }
            Ok((builder.counts, begin.elapsed()))
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
        Ok(())
    }
}
