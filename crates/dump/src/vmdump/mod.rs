//! Writes vmdumps: an ELF core in independent compressed chunks, with an index
//! (docs/formats/vmdump.md).
//!
//! Helpers compress chunks of a fixed size in any order; the placer assigns them offsets in the
//! order of the core. Nothing is written twice, so a stream receives the same bytes as a file. In
//! a striped dump, chunks go to several files or devices in turn.

mod check;
mod chunk_builder;
mod chunk_copy;
mod in_order;
mod merge;
mod metadata;
mod packed;
mod packing;
mod part_placer;
mod placer;
mod record_sink;
mod repair;

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bigiron_format::vmdump::VmdumpHeader;

use crate::core_map::CoreMap;
use crate::driver::FormatWriter;
use crate::dump_id::new_dump_id;
use crate::error::DumpError;
use crate::format::ChunkCompression;
use crate::job::DumpJob;
use crate::kept_pages::KeptPages;
use crate::options::DumpOptions;
use crate::output::Part;
use crate::summary::Summary;

use chunk_copy::{AHEAD, ChunkCopy, VmdumpLayout};
use placer::Placer;
use record_sink::{RecordSink, queue_capacity};

pub use check::check_vmdump;
pub use merge::{MergeOptions, merge};
pub use repair::{Repair, repair_vmdump};

/// Writer of vmdumps.
pub struct VmdumpWriter<'a, 's> {
    job: &'a DumpJob<'a, 's>,
    parts: &'a [Part<'a>],
    compression: ChunkCompression,
}

impl<'a, 's> VmdumpWriter<'a, 's> {
    /// Creates the writer of a dump in `parts`.
    pub fn new(
        job: &'a DumpJob<'a, 's>,
        parts: &'a [Part<'a>],
        compression: ChunkCompression,
    ) -> Self {
        Self {
            job,
            parts,
            compression,
        }
    }

    fn make_header(&self, map: &CoreMap) -> VmdumpHeader {
        let (subject, options) = (self.job.subject, self.job.options);
        let source = subject.source();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let identity = options.identity;
        VmdumpHeader {
            container: self.compression.container(),
            page_shift: source.page_shift(),
            machine: map.machine,
            endian: source.endian(),
            dump_level: self.job.dump_level(),
            chunk_pages: self.compression.chunk_pages(source.page_shift()),
            memory_offset: map.memory_offset(),
            core_size: map.size,
            time: identity.map_or(now.as_secs(), |identity| identity.time),
            id: identity.map_or_else(|| new_dump_id().0, |identity| identity.id),
            stripe: (0, self.parts.len() as u16),
            utsname: subject.utsname().clone(),
        }
    }
}

impl FormatWriter for VmdumpWriter<'_, '_> {
    type Layout = VmdumpLayout;

    fn lay_out(&self, kept: &KeptPages) -> Result<VmdumpLayout, DumpError> {
        let rules = self.job.record_of_rules();
        let map = CoreMap::of(kept.job.subject, self.job.left_out(), &rules)?;
        let header = self.make_header(&map);
        let (placer, first) = Placer::new(&header);
        Ok(VmdumpLayout {
            map,
            header,
            placer: Mutex::new(placer),
            first,
        })
    }

    fn copy(
        &self,
        kept: &KeptPages,
        layout: &mut VmdumpLayout,
        summary: &mut Summary,
    ) -> Result<(), DumpError> {
        let chunk_bytes = self.compression.chunk_bytes();
        let capacity = queue_capacity(self.job.options, chunk_bytes, self.parts.len());
        let sink = RecordSink::new(self.parts, capacity, self.job.stop);
        let mut first = std::mem::take(&mut layout.first);
        let copy = ChunkCopy {
            kept,
            layout,
            compression: self.compression,
            sink: &sink,
        };
        sink.run(&mut || {
            sink.put(&mut first)?;
            copy.run(summary)
        })
    }

    fn finish(
        &mut self,
        kept: &KeptPages,
        layout: VmdumpLayout,
        complete: bool,
        summary: &Summary,
    ) -> Result<(), DumpError> {
        let compression = self.compression.to_string();
        let metadata = metadata::encode(kept, &layout.header, &compression, summary);
        let placer = layout.placer.into_inner();
        let placer = placer.unwrap_or_else(PoisonError::into_inner);
        // The root must not be on a disk that then refuses a page.
        self.parts.iter().try_for_each(Part::sync)?;
        for record in placer.end(complete, &metadata)? {
            self.parts[record.part].write_at(record.offset, &record.bytes)?;
        }
        Ok(())
    }
}

/// Returns the memory of the queues to the writers of `parts` parts, and that of one helper: its
/// codec, the pages of a chunk, room for the compressed ones, the result, and results that wait
/// for an earlier one.
pub fn memory_needed(
    compression: ChunkCompression,
    parts: usize,
    options: &DumpOptions,
) -> (u64, u64) {
    const PAGE_SHIFT: u32 = 12;
    let chunk_bytes = compression.chunk_bytes();
    let queues = if parts > 1 {
        let chunks = queue_capacity(options, chunk_bytes, parts) + 1;
        parts as u64 * chunks * u64::from(chunk_bytes)
    } else {
        0
    };
    let chunk = (compression.chunk_pages(PAGE_SHIFT) as usize) << PAGE_SHIFT;
    let pages = vec![0; chunk];
    let context = compression.compressor().and_then(|mut compressor| {
        let mut out = vec![0; compressor.bound(chunk)];
        compressor.compress(&pages, &mut out)?;
        Ok(compressor.context_bytes())
    });
    (
        queues,
        context.unwrap_or(0) as u64 + chunk as u64 * (3 + AHEAD),
    )
}
