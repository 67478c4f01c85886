//! Writes kdump-compressed dumps, to a file or flattened to a stream.
//!
//! The bitmaps tell how many pages come before each chunk, so a helper knows
//! where its descriptors belong without waiting for others. Data may lie
//! anywhere: each helper takes the next free piece of the file.

mod adaptive;
mod builder;
mod copy;
mod delivery;
mod split;
mod thread_time;
mod unit;

use std::sync::atomic::AtomicU64;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bigiron_format::kdump::{KdumpHeaders, Layout, flags_of_codec};
use bigiron_helpers::Turnstile;
use bigiron_kernel::{Filter, SECTION_FRAMES};

use crate::bitmaps::{BitmapStore, CHUNK_BYTES};
use crate::chunks::Chunks;
use crate::error::DumpError;
use crate::notes::output_notes;
use crate::options::PageCompression;
use crate::output::{FileOutput, Output};
use crate::plan;
use crate::progress::Phase;
use crate::shared_pages::SharedPages;
use crate::summary::Summary;
use crate::task::{Task, Written, end_phase, summarize_plan};

use adaptive::STEPS;
use copy::{Copy, UNITS_PER_CHUNK};

pub use split::write_split;

/// Bitmaps of memory that is not there, in a stream: 8 TiB of address space.
const MOST_GAPS: u64 = 256 << 20;
/// Memory for bitmaps that cannot be read back from the output: what 128 GiB
/// need. Beyond, the filter decides a second time, which takes less than a
/// second for each 100 GiB.
const MOST_BITMAPS: u64 = 4 << 20;
/// Memory for finding equal pages.
const SHARED_PAGES_BYTES: u64 = 2 << 20;

/// Filters, then writes a whole dump. `readable` is the output if the bitmaps
/// can be read back from it.
pub fn write<'s>(
    task: &Task<'_, 's>,
    filter: &Filter<'_, 's>,
    output: &dyn Output,
    readable: Option<&FileOutput>,
    summary: &mut Summary,
) -> Result<Written, DumpError> {
    let begin = Instant::now();
    let mut headers = make_headers(task, filter);
    let layout = headers.layout;
    let put = |offset, bytes: &[u8]| {
        if bytes.is_empty() {
            return Ok(());
        }
        task.progress.add_written(bytes.len() as u64);
        output.write_at(offset, bytes)
    };
    // A file says that it is not complete as long as that is so. In a stream the
    // missing end record says it, and some readers want no record twice.
    headers.incomplete = !output.is_stream();
    if output.is_stream() {
        put(0, &headers.encode()).map_err(|e| task.write_error(e))?;
    } else {
        // On a device are the bitmaps and descriptors of an older dump: they must
        // not be read as this one's before they are.
        let header = output.make_zero(0, layout.ram_bitmap());
        header.map_err(|e| task.write_error(e))?;
    }

    let chunks = Chunks::of(task.kernel.source());
    let readable = readable.map(|file| (file, layout.dumped_bitmap()));
    let store = BitmapStore::of(task, readable, chunks.len(), MOST_BITMAPS);
    // Bitmaps have gaps where there is no RAM.
    output
        .make_zero(layout.ram_bitmap(), 2 * layout.bitmap_size)
        .map_err(|e| task.write_error(e))?;
    if output.is_stream() {
        fill_bitmap_gaps(task, &layout, &chunks, &put)?;
    }
    let plan = plan::make(task, filter, chunks, &store, false, &|first, ram, kept| {
        let offset = first.0 / 8;
        let len = CHUNK_BYTES.min(layout.bitmap_size.saturating_sub(offset) as usize);
        put(layout.ram_bitmap() + offset, &ram.as_bytes()[..len])?;
        put(layout.dumped_bitmap() + offset, &kept.as_bytes()[..len])
    })?;
    summarize_plan(task, &plan, summary);
    end_phase(summary, Phase::Filtering, begin);

    let begin = Instant::now();
    // A descriptor that is never written must say that its page is lost.
    let descriptors = layout.descriptor(plan.kept) - layout.descriptors();
    output
        .make_zero(layout.descriptors(), descriptors)
        .map_err(|e| task.write_error(e))?;
    // Which page a descriptor belongs to follows from all bitmaps before it: it
    // must not be on the disk without them.
    output.sync().map_err(|e| task.write_error(e))?;
    if !output.is_stream() {
        put(0, &headers.encode()).map_err(|e| task.write_error(e))?;
    }
    let zero_page = layout.descriptor(plan.kept);
    put(zero_page, &vec![0; task.page_size()]).map_err(|e| task.write_error(e))?;
    let copy = Copy {
        task,
        filter,
        output,
        plan: &plan,
        store: &store,
        layout,
        units: 0..plan.chunks.len() as u64 * UNITS_PER_CHUNK,
        first_page: 0,
        zero_page,
        next_data: AtomicU64::new(zero_page + task.page_size() as u64),
        shared: SharedPages::new(SHARED_PAGES_BYTES),
        turnstile: Turnstile::new(),
    };
    task.progress.begin(Phase::Copying, plan.kept);
    copy.run(summary)?;
    end_phase(summary, Phase::Copying, begin);

    let begin = Instant::now();
    task.progress.begin(Phase::Finishing, 0);
    let incomplete = summary.lost > 0 || task.kernel.damage().is_some();
    if headers.incomplete != incomplete {
        headers.incomplete = incomplete;
        // The header must not be on a disk that then refuses a page.
        output.sync().map_err(|e| task.write_error(e))?;
        put(0, &headers.encode()).map_err(|e| task.write_error(e))?;
    }
    output.finish().map_err(|e| task.write_error(e))?;
    end_phase(summary, Phase::Finishing, begin);
    Ok(Written)
}

/// Memory of the units that wait for the writer of a dump with so many helpers,
/// of pages of the usual size.
pub fn queue_bytes(helpers: usize) -> u64 {
    const PAGE_SIZE: u64 = 4096;
    // One more is in the writer's hands.
    (delivery::queued_units(helpers) as u64 + 1) * copy::UNIT_FRAMES * PAGE_SIZE
}

/// Memory of the codecs that a helper of an adaptive dump has.
pub fn adaptive_context_bytes() -> u64 {
    let contexts = STEPS.iter().map(|step| step.compression.context_bytes());
    contexts.sum::<usize>() as u64
}

fn make_headers(task: &Task, filter: &Filter) -> KdumpHeaders {
    let kernel = task.kernel;
    let source = kernel.source();
    let notes = output_notes(kernel, false);
    let block_size = task.page_size() as u32;
    let end_frame = filter.end_frame().0;
    let sub_header = notes.bytes.len() + notes.erase_info.len();
    let layout = Layout::new(u64::from(block_size), sub_header as u64, end_frame);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let text = notes.vmcoreinfo;
    KdumpHeaders {
        endian: source.endian(),
        version: bigiron_format::kdump::header::VERSION,
        utsname: kernel.utsname().clone(),
        timestamp: (now.as_secs().cast_signed(), i64::from(now.subsec_micros())),
        codec_flags: codec_flags(task.options.compression),
        incomplete: true,
        block_size,
        cpu_count: notes.cpus.max(1) as u32,
        phys_base: kernel
            .info()
            .number("phys_base")
            .unwrap_or(0)
            .cast_unsigned(),
        dump_level: u32::from(task.options.level.number() | source.dump_level()),
        split: None,
        end_frame,
        vmcoreinfo: Some((layout.notes() + text.start as u64, text.len() as u64)),
        offset_note: layout.notes(),
        notes: notes.bytes,
        erase_info: notes.erase_info,
        layout,
    }
}

/// The codecs that a page may have, for the header. Readers go by the flags of
/// each page's descriptor.
fn codec_flags(compression: PageCompression) -> u32 {
    match compression {
        PageCompression::Fixed(fixed) => flags_of_codec(fixed.codec),
        PageCompression::Bzip2 => 0,
        PageCompression::Adaptive => STEPS.iter().fold(0, |flags, step| {
            flags | flags_of_codec(step.compression.codec)
        }),
    }
}

/// In a stream nothing may be missing, so the bitmaps of chunks without RAM
/// are written too.
fn fill_bitmap_gaps(
    task: &Task,
    layout: &Layout,
    chunks: &Chunks,
    put: &dyn Fn(u64, &[u8]) -> std::io::Result<()>,
) -> Result<(), DumpError> {
    let planned_bytes = chunks.len() as u64 * CHUNK_BYTES as u64;
    let gaps = layout.bitmap_size.saturating_sub(planned_bytes);
    let ram = chunks.len() as u64 * SECTION_FRAMES * task.page_size() as u64;
    if gaps > MOST_GAPS && gaps > ram {
        return Err(DumpError::Layout(format!(
            "memory goes on to page frame {:#x}, and a stream cannot skip the {} bytes of bitmaps \
             for what is not there; write to a file",
            task.kernel.source().end_frame().0,
            2 * gaps
        )));
    }
    let mut planned = chunks.iter().map(|chunk| chunk.first.0 / 8).peekable();
    let mut offset = 0;
    while offset < layout.bitmap_size {
        let len = (CHUNK_BYTES as u64).min(layout.bitmap_size - offset);
        if planned.next_if_eq(&offset).is_none() {
            for bitmap in [layout.ram_bitmap(), layout.dumped_bitmap()] {
                put(bitmap + offset, &[0; CHUNK_BYTES][..len as usize])
                    .map_err(|e| task.write_error(e))?;
            }
        }
        offset += len;
    }
    Ok(())
}
