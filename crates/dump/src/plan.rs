//! The first pass: which pages are kept, and where each chunk's begin.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_helpers::{WorkCursor, run};
use bigiron_kernel::{ExcludedCounts, Filter, PageReader, SECTION_FRAMES};

use crate::bitmaps::{BitmapStore, CHUNK_BYTES};
use crate::chunks::Chunks;
use crate::error::DumpError;
use crate::page::is_zero;
use crate::progress::Phase;
use crate::task::Task;

/// Pages looked at together in the search for zeros.
const ZERO_SCAN_PAGES: usize = 64;

/// What the filter found, all chunks together.
#[derive(Debug, Default)]
pub struct Plan {
    /// The chunks that have RAM, in order, and what is kept of them.
    pub chunks: Chunks,
    /// Pages kept.
    pub kept: u64,
    /// Page frames of RAM.
    pub ram: u64,
    /// Page frames left out.
    pub excluded: ExcludedCounts,
    /// Zero pages that were found and left out already (for ELF).
    pub zero: u64,
    /// Struct pages decided about.
    pub scanned: u64,
    /// Struct pages that could not be read.
    pub unreadable: u64,
    /// Frames of broken memory, sorted.
    pub poisoned: Vec<PageFrame>,
}

/// Receives each chunk's bitmaps as they are made: of RAM and of kept pages.
pub type TakeBitmaps<'a> = dyn Fn(PageFrame, &Bitmap, &Bitmap) -> io::Result<()> + Sync + 'a;

/// Filters all chunks in parallel. With `drop_zero` pages of zeros are taken
/// out too, which reads every page that is kept.
pub fn make(
    task: &Task,
    filter: &Filter,
    mut chunks: Chunks,
    store: &BitmapStore,
    drop_zero: bool,
    take: &TakeBitmaps,
) -> Result<Plan, DumpError> {
    let progress = task.progress;
    progress.begin(Phase::Filtering, chunks.len() as u64 * SECTION_FRAMES);
    let cursor = WorkCursor::new(chunks.len() as u64);
    let planned = &chunks;
    let counts: Vec<AtomicU16> = (0..chunks.len()).map(|_| AtomicU16::new(0)).collect();
    let parts = run(task.helpers, task.stop, |_| -> Result<_, DumpError> {
        let mut reader = task.kernel.source().reader(task.options.io);
        let mut ram = Bitmap::new(SECTION_FRAMES as usize);
        let mut kept = Bitmap::new(SECTION_FRAMES as usize);
        let mut part = Plan::default();
        while let Some(index) = cursor.take(task.stop) {
            let first = planned.at(index as usize).first;
            let chunk = filter
                .scan_section(reader.as_mut(), first, &mut ram, &mut kept)
                .map_err(|source| task.filter_error(source))?;
            if drop_zero {
                part.zero += drop_zero_pages(task, reader.as_mut(), first, &mut kept)?;
            }
            store.keep(index as usize, &kept);
            take(first, &ram, &kept).map_err(|error| task.write_error(error))?;
            counts[index as usize].store(kept.count() as u16, Ordering::Relaxed);
            part.ram += chunk.ram;
            part.excluded.add(&chunk.excluded);
            part.scanned += chunk.scanned;
            part.unreadable += chunk.unreadable;
            part.poisoned.extend(chunk.poisoned);
            progress.add(SECTION_FRAMES);
        }
        Ok(part)
    })?;
    task.check_interrupted()?;

    let mut plan = Plan::default();
    for part in parts {
        plan.ram += part.ram;
        plan.excluded.add(&part.excluded);
        plan.zero += part.zero;
        plan.scanned += part.scanned;
        plan.unreadable += part.unreadable;
        plan.poisoned.extend(part.poisoned);
    }
    chunks.set_kept(counts.into_iter().map(AtomicU16::into_inner).collect());
    plan.kept = chunks.kept();
    plan.poisoned.sort_unstable();
    plan.chunks = chunks;
    Ok(plan)
}

/// Brings back the bitmap of kept pages of the `chunk.0`-th chunk of the plan,
/// which begins with page frame `chunk.1`.
pub fn load_kept(
    task: &Task,
    store: &BitmapStore,
    filter: &Filter,
    reader: &mut dyn PageReader,
    chunk: (usize, PageFrame),
    kept: &mut Bitmap,
) -> Result<(), DumpError> {
    match store {
        BitmapStore::InOutput(output, offset) => output
            .read_back(
                offset + chunk.1.0 / 8,
                &mut kept.as_bytes_mut()[..CHUNK_BYTES],
            )
            .map_err(|error| task.write_error(error))?,
        BitmapStore::InMemory(chunks) => match chunks.get(chunk.0).and_then(|bits| bits.get()) {
            Some(bytes) => {
                kept.clear();
                kept.as_bytes_mut()[..CHUNK_BYTES].copy_from_slice(bytes);
            }
            None => decide_again(task, filter, reader, chunk.1, kept)?,
        },
    }
    Ok(())
}

/// A dead kernel's pages do not change, so the same comes out as before.
fn decide_again(
    task: &Task,
    filter: &Filter,
    reader: &mut dyn PageReader,
    first: PageFrame,
    kept: &mut Bitmap,
) -> Result<(), DumpError> {
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    filter
        .scan_section(reader, first, &mut ram, kept)
        .map_err(|error| task.filter_error(error))?;
    if task.drops_zero_pages() {
        drop_zero_pages(task, reader, first, kept)?;
    }
    Ok(())
}

/// Clears the bits of pages whose bytes are all zero.
fn drop_zero_pages(
    task: &Task,
    reader: &mut dyn PageReader,
    first: PageFrame,
    kept: &mut Bitmap,
) -> Result<u64, DumpError> {
    let page_size = task.page_size();
    let (mut from, mut dropped) = (0, 0);
    while let Some((start, len)) = kept.next_run(from, kept.len(), ZERO_SCAN_PAGES) {
        let pages = match reader.pages(PageFrame(first.0 + start as u64), len) {
            Ok(pages) => pages,
            Err(error) if error.is_one_page() => {
                from = start + 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        from = start + pages.len() / page_size;
        for (index, page) in pages.chunks_exact(page_size).enumerate() {
            if is_zero(page) {
                dropped += kept.clear_range(start + index, start + index + 1);
            }
        }
    }
    Ok(dropped)
}
