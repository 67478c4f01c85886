//! Writes vmdumps: an ELF core in independent compressed chunks, with an index
//! (docs/formats/vmdump.md).
//!
//! Helpers compress chunks of a fixed size in any order; the placer gives them
//! their offsets in the order of the core. Nothing is written twice, so a
//! stream gets the same bytes as a file.

mod check;
mod copy;
mod helper;
mod in_order;
mod merge;
mod metadata;
mod piece_sink;
mod place;
mod place_part;
mod repair;
mod stripe_targets;
mod stripes;

use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bigiron_format::codec::{Codec, CodecError, Compression};
use bigiron_format::vmdump::{ChunkCompressor, Container, VmdumpHeader, streams};
use bigiron_kernel::Filter;

use crate::bitmaps::BitmapStore;
use crate::chunks::Chunks;
use crate::core_map::CoreMap;
use crate::dump_id::new_dump_id;
use crate::error::DumpError;
use crate::options::{DumpOptions, PageCompression};
use crate::output::Output;
use crate::plan;
use crate::progress::Phase;
use crate::summary::Summary;
use crate::task::{Task, Written, end_phase, summarize_plan};

use copy::{AHEAD, Copy};
use piece_sink::{Buffers, OneOutput, PieceSink};
use place::Placer;

pub use check::check_vmdump;
pub use merge::{MergeOptions, merge};
pub use repair::{Repair, repair_vmdump};
pub use stripe_targets::check_targets;
pub use stripes::{Stripe, parts_bytes, queued, write_striped};

/// Bytes of memory in a chunk where nothing else is asked for.
pub const DEFAULT_CHUNK: u32 = 256 << 10;

/// Filters, then writes a whole dump.
pub fn write<'s>(
    task: &Task<'_, 's>,
    filter: &Filter<'_, 's>,
    output: &dyn Output,
    summary: &mut Summary,
) -> Result<Written, DumpError> {
    write_to(task, filter, &OneOutput { task, output }, summary)
}

fn write_to<'s>(
    task: &Task<'_, 's>,
    filter: &Filter<'_, 's>,
    sink: &dyn PieceSink,
    summary: &mut Summary,
) -> Result<Written, DumpError> {
    let begin = Instant::now();
    let chunks = Chunks::of(task.kernel.source());
    let store = BitmapStore::of(task, None, chunks.len(), u64::MAX);
    let plan = plan::make(task, filter, chunks, &store, false, &|_, _, _| Ok(()))?;
    summarize_plan(task, &plan, summary);
    let map = CoreMap::of(task.kernel)?;
    end_phase(summary, Phase::Filtering, begin);

    let begin = Instant::now();
    task.progress.begin(Phase::Copying, plan.kept);
    let Some(packing) = packing(task.options) else {
        return Err(DumpError::Layout("a vmdump takes -c zstd or bzip2".into()));
    };
    let header = make_header(task, &map, packing, sink.parts());
    let (placer, mut first) = Placer::new(&header);
    let copy = Copy {
        task,
        filter,
        sink,
        plan: &plan,
        store: &store,
        map: &map,
        header: &header,
        packing,
        placer: Mutex::new(placer),
        buffers: Buffers::default(),
    };
    sink.take_from(&copy.buffers, &mut || {
        copy.write(&mut first)?;
        copy.run(summary)?;
        copy.end_chunks()
    })?;
    task.check_interrupted()?;
    end_phase(summary, Phase::Copying, begin);

    let begin = Instant::now();
    task.progress.begin(Phase::Finishing, 0);
    let placer = copy.placer.into_inner();
    let placer = placer.unwrap_or_else(|poison| poison.into_inner());
    let complete = summary.lost == 0 && task.kernel.damage().is_none();
    let metadata = metadata::encode(task, &header, &plan, summary);
    sink.end(placer.end(complete, &metadata)?)?;
    end_phase(summary, Phase::Finishing, begin);
    Ok(Written)
}

/// How chunks are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// zstd at a level.
    Zstd(i32),
    /// bzip2 at its only useful level, the highest.
    Bzip2,
}

impl Packing {
    fn container(self) -> Container {
        match self {
            Self::Zstd(_) => Container::Zstd,
            Self::Bzip2 => Container::Bzip2,
        }
    }

    fn compressor(self) -> Result<ChunkCompressor, CodecError> {
        match self {
            Self::Zstd(level) => ChunkCompressor::zstd(level),
            Self::Bzip2 => Ok(ChunkCompressor::Bzip2),
        }
    }

    /// Pages of a chunk. A chunk in bzip2 is one block.
    fn chunk_pages(self, options: &DumpOptions, page_shift: u32) -> u32 {
        let bytes = match self {
            Self::Zstd(_) => options.chunk_bytes,
            Self::Bzip2 => streams::BLOCK,
        };
        (bytes >> page_shift).max(1)
    }
}

/// How the chunks of a vmdump are packed; `None` if they cannot be so.
pub fn packing(options: &DumpOptions) -> Option<Packing> {
    match options.compression {
        PageCompression::Fixed(Compression {
            codec: Codec::Zstd,
            level,
        }) => Some(Packing::Zstd(level)),
        PageCompression::Bzip2 => Some(Packing::Bzip2),
        _ => None,
    }
}

/// Memory that each helper takes: its codec's, the pages of a chunk, room for what
/// it may become, what became of it, and those that wait for an earlier one.
pub fn helper_bytes(options: &DumpOptions) -> u64 {
    let Some(packing) = packing(options) else {
        return 0;
    };
    const PAGE_SHIFT: u32 = 12;
    let chunk = (packing.chunk_pages(options, PAGE_SHIFT) as usize) << PAGE_SHIFT;
    let pages = vec![0; chunk];
    let context = packing.compressor().and_then(|mut compressor| {
        let mut out = vec![0; compressor.bound(chunk)];
        compressor.compress(&pages, &mut out)?;
        Ok(compressor.context_bytes())
    });
    context.unwrap_or(0) as u64 + chunk as u64 * (3 + AHEAD)
}

fn make_header(task: &Task, map: &CoreMap, packing: Packing, parts: u16) -> VmdumpHeader {
    let source = task.kernel.source();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let identity = task.options.identity;
    VmdumpHeader {
        container: packing.container(),
        page_shift: source.page_shift(),
        machine: map.machine,
        endian: source.endian(),
        dump_level: task.options.level.number() | source.dump_level(),
        chunk_pages: packing.chunk_pages(task.options, source.page_shift()),
        memory_offset: map.memory_offset(),
        core_size: map.size,
        time: identity.map_or(now.as_secs(), |identity| identity.time),
        id: identity.map_or_else(|| new_dump_id().0, |identity| identity.id),
        stripe: (0, parts),
        utsname: task.kernel.utsname().clone(),
    }
}
