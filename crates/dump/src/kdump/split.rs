//! Writes a split dump: several files, each with all bitmaps and the pages of
//! its own range of page frames (makedumpfile --split).

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::kdump::{KdumpHeaders, Layout};
use bigiron_helpers::{Turnstile, WorkCursor, run};
use bigiron_kernel::{Filter, SECTION_FRAMES};

use super::copy::{Copy, UNIT_FRAMES, UNITS_PER_CHUNK};
use super::{MOST_BITMAPS, SHARED_PAGES_BYTES, make_headers};
use crate::bitmaps::{BitmapStore, CHUNK_BYTES};
use crate::chunks::Chunks;
use crate::error::DumpError;
use crate::output::{FileOutput, Output, keep};
use crate::plan::{self, Plan};
use crate::progress::Phase;
use crate::shared_pages::SharedPages;
use crate::summary::Summary;
use crate::task::{Task, Written, end_phase, summarize_plan, with_output};

/// One file of the dump.
struct Part<'a> {
    path: &'a PathBuf,
    file: FileOutput,
}

/// What of the plan goes into a file.
struct Share {
    /// The units, of all of the plan's.
    units: Range<u64>,
    /// Kept pages before them.
    first_page: u64,
}

/// Filters, then writes a file for each of `paths`.
pub fn write_split<'s>(
    task: &Task<'_, 's>,
    filter: &Filter<'_, 's>,
    paths: &[PathBuf],
    granule: u64,
    summary: &mut Summary,
) -> Result<(), DumpError> {
    let mut parts = Vec::with_capacity(paths.len());
    for path in paths {
        match FileOutput::create(path, task.options.overwrite) {
            Ok(file) => parts.push(Part { path, file }),
            Err(error) => {
                parts.iter().for_each(|part: &Part| part.file.discard());
                return Err(error);
            }
        }
    }
    let result = write_parts(task, filter, &parts, granule, summary);
    let Err(error) = result else { return Ok(()) };
    // As long as the filter works there is no page in them yet.
    let failed = task.options.discard_if_full && error.is_output_full();
    let empty = failed || matches!(task.progress.phase(), Phase::Opening | Phase::Filtering);
    let kept = |path: Option<&PathBuf>| {
        let part = parts
            .iter()
            .find(|part| path.is_none_or(|path| path == part.path));
        part.filter(|_| !empty).and_then(|part| part.file.kept())
    };
    let error = match error {
        DumpError::Write { path, source, .. } => DumpError::Write {
            kept: kept(Some(&path)),
            path,
            source,
        },
        DumpError::Interrupted { .. } => DumpError::Interrupted { kept: kept(None) },
        other => other,
    };
    let usable = matches!(
        error,
        DumpError::Write { .. } | DumpError::Interrupted { .. }
    );
    if empty || !usable {
        parts.iter().for_each(|part| part.file.discard());
    }
    Err(error)
}

fn write_parts<'s>(
    task: &Task<'_, 's>,
    filter: &Filter<'_, 's>,
    parts: &[Part],
    granule: u64,
    summary: &mut Summary,
) -> Result<Written, DumpError> {
    let begin = Instant::now();
    let mut headers = make_headers(task, filter);
    let layout = headers.layout;
    // See write(): what a device held before is not read as this dump's.
    for_each_output(task, parts, |output| {
        output.make_zero(0, layout.ram_bitmap() + 2 * layout.bitmap_size)
    })?;
    let chunks = Chunks::of(task.kernel.source());
    // All parts have all of the bitmaps.
    let mut files = parts.iter().map(|part| &part.file);
    let readable = files.find(|file| file.is_readable());
    let readable = readable.map(|file| (file, layout.dumped_bitmap()));
    let store = BitmapStore::of(task, readable, chunks.len(), MOST_BITMAPS);
    let plan = plan::make(task, filter, chunks, &store, false, &|first, ram, kept| {
        let offset = first.0 / 8;
        let len = CHUNK_BYTES.min(layout.bitmap_size.saturating_sub(offset) as usize);
        for Part { file, .. } in parts {
            task.progress.add_written(2 * len as u64);
            file.write_at(layout.ram_bitmap() + offset, &ram.as_bytes()[..len])?;
            file.write_at(layout.dumped_bitmap() + offset, &kept.as_bytes()[..len])?;
        }
        Ok(())
    })?;
    summarize_plan(task, &plan, summary);
    let shares = divide(task, filter, &plan, &store, parts.len(), granule)?;
    end_phase(summary, Phase::Filtering, begin);

    let begin = Instant::now();
    // See write(): lost until it is written, and not without the bitmaps before it.
    let descriptors = layout.descriptor(plan.kept) - layout.descriptors();
    for_each_output(task, parts, |output| {
        output.make_zero(layout.descriptors(), descriptors)
    })?;
    for_each_output(task, parts, |output| output.sync())?;
    put_headers(task, parts, &headers)?;
    task.progress.begin(Phase::Copying, plan.kept);
    let job = CopyJob {
        filter,
        plan: &plan,
        store: &store,
        layout,
    };
    job.copy_parts(task, parts, &shares, summary)?;
    end_phase(summary, Phase::Copying, begin);

    let begin = Instant::now();
    task.progress.begin(Phase::Finishing, 0);
    headers.incomplete = summary.lost > 0 || task.kernel.damage().is_some();
    // The headers must not be on a disk that then refuses a page.
    for_each_output(task, parts, |output| output.sync())?;
    let end = headers.end_frame;
    let mut start = 0;
    for index in 0..parts.len() {
        let next = shares.get(index + 1).map(|next| next.units.start);
        let stop = next.map_or(end, |unit| frame_of(&plan, unit, end));
        headers.split = Some((start, stop));
        put_headers(task, &parts[index..=index], &headers)?;
        start = stop;
    }
    for_each_output(task, parts, |output| output.finish())?;
    end_phase(summary, Phase::Finishing, begin);
    Ok(Written)
}

/// Does something with the output of each part; an error names the part.
fn for_each_output(
    task: &Task,
    parts: &[Part],
    work: impl Fn(&dyn Output) -> io::Result<()>,
) -> Result<(), DumpError> {
    for part in parts {
        with_output(task, &part.file, &work)
            .map_err(|error| task.for_part(part.path, 1).write_error(error))?;
    }
    Ok(())
}

fn put_headers(task: &Task, parts: &[Part], headers: &KdumpHeaders) -> Result<(), DumpError> {
    let bytes = headers.encode();
    for part in parts {
        task.progress.add_written(bytes.len() as u64);
        part.file
            .write_at(0, &bytes)
            .map_err(|error| task.for_part(part.path, 1).write_error(error))?;
    }
    Ok(())
}

/// The page frame with which a unit of the plan begins.
fn frame_of(plan: &Plan, unit: u64, end: u64) -> u64 {
    let chunk = (unit / UNITS_PER_CHUNK) as usize;
    if chunk >= plan.chunks.len() {
        return end;
    }
    let first = plan.chunks.at(chunk).first.0;
    (first + unit % UNITS_PER_CHUNK * UNIT_FRAMES).min(end)
}

/// Divides the kept pages into `count` ranges of about as many each: the units
/// of each, and the pages before it.
fn divide(
    task: &Task,
    filter: &Filter,
    plan: &Plan,
    store: &BitmapStore,
    count: usize,
    granule: u64,
) -> Result<Vec<Share>, DumpError> {
    let granule = granule
        .next_multiple_of(UNIT_FRAMES)
        .clamp(UNIT_FRAMES, SECTION_FRAMES) as usize;
    let mut reader = task.kernel.source().reader(task.options.io);
    let mut kept = Bitmap::new(SECTION_FRAMES as usize);
    let units = plan.chunks.len() as u64 * UNITS_PER_CHUNK;
    let mut shares = Vec::with_capacity(count);
    let (mut from, mut before) = (0, 0);
    for number in 1..count as u64 {
        let wanted = u64::try_from(u128::from(plan.kept) * u128::from(number) / count as u128);
        let wanted = wanted.unwrap_or(plan.kept);
        let behind = |index: &usize| {
            let chunk = plan.chunks.at(*index);
            chunk.kept_before + chunk.kept >= wanted
        };
        // The first chunk with which there are enough; they are in order.
        let index = partition(plan.chunks.len(), |index| !behind(&index));
        let (cut, pages) = if index == plan.chunks.len() {
            (units, plan.kept)
        } else {
            let chunk = plan.chunks.at(index);
            let place = (index, chunk.first);
            plan::load_kept(task, store, filter, reader.as_mut(), place, &mut kept)?;
            let pages = |bit: usize| chunk.kept_before + kept.count_before(bit);
            let bit = (0..=SECTION_FRAMES as usize)
                .step_by(granule)
                .find(|bit| pages(*bit) >= wanted)
                .unwrap_or(SECTION_FRAMES as usize);
            let unit = index as u64 * UNITS_PER_CHUNK + bit as u64 / UNIT_FRAMES;
            (unit, pages(bit))
        };
        shares.push(Share {
            units: from..cut,
            first_page: before,
        });
        (from, before) = (cut, pages);
    }
    shares.push(Share {
        units: from..units,
        first_page: before,
    });
    Ok(shares)
}

/// The first index below `len` for which `is_before` does not hold.
fn partition(len: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// What copying the parts takes.
struct CopyJob<'a, 's> {
    filter: &'a Filter<'a, 's>,
    plan: &'a Plan,
    store: &'a BitmapStore<'a>,
    layout: Layout,
}

impl<'s> CopyJob<'_, 's> {
    /// Copies the pages of all parts, several at the same time.
    fn copy_parts(
        &self,
        task: &Task<'_, 's>,
        parts: &[Part],
        shares: &[Share],
        summary: &mut Summary,
    ) -> Result<(), DumpError> {
        let at_once = task.helpers.min(parts.len()).max(1);
        let each = (task.helpers / at_once).max(1);
        let cursor = WorkCursor::new(parts.len() as u64);
        let results = run(at_once, task.stop, |_| -> Result<_, DumpError> {
            let mut results = Vec::new();
            while let Some(index) = cursor.take(task.stop) {
                let (part, share) = (&parts[index as usize], &shares[index as usize]);
                let part_task = task.for_part(part.path, each);
                let mut summary = Summary::default();
                let result = self.copy_part(&part_task, part, share, &mut summary);
                results.push((result, summary));
            }
            Ok(results)
        })?;
        // Who stopped because another one failed says that it was interrupted.
        let mut failed = None;
        for (result, part) in results.into_iter().flatten() {
            summary.zero += part.zero;
            summary.shared += part.shared;
            summary.bytes_in += part.bytes_in;
            summary.helper_times.extend(part.helper_times);
            summary.lost += part.lost;
            summary.lost_frames.extend(part.lost_frames);
            summary.warnings.extend(part.warnings);
            match result {
                Err(error)
                    if failed.is_none() || !matches!(error, DumpError::Interrupted { .. }) =>
                {
                    failed = Some(error);
                }
                _ => {}
            }
        }
        failed.map_or_else(|| task.check_interrupted(), Err)
    }

    fn copy_part(
        &self,
        task: &Task<'_, 's>,
        part: &Part,
        share: &Share,
        summary: &mut Summary,
    ) -> Result<(), DumpError> {
        // makedumpfile --reassemble looks for the page of zeros behind as many
        // descriptors as the whole dump has, in each part.
        let zero_page = self.layout.descriptor(self.plan.kept);
        with_output(task, &part.file, |output| {
            let zeros = vec![0; task.page_size()];
            task.progress.add_written(zeros.len() as u64);
            output
                .write_at(zero_page, &zeros)
                .map_err(|error| task.write_error(error))?;
            let copy = Copy {
                task,
                filter: self.filter,
                output,
                plan: self.plan,
                store: self.store,
                layout: self.layout,
                units: share.units.clone(),
                first_page: share.first_page,
                zero_page,
                next_data: AtomicU64::new(zero_page + task.page_size() as u64),
                shared: SharedPages::new(SHARED_PAGES_BYTES),
                turnstile: Turnstile::new(),
            };
            let error = |error| task.write_error(error);
            keep(output, task.progress, task.stop, error, || {
                copy.run(summary)
            })
        })
    }
}
