//! Writes ELF cores, to a file or to a stream.
//!
//! A program header stands for RAM whose first part is in the file and whose
//! rest was left out (p_filesz < p_memsz), as makedumpfile -E writes it.

use std::num::NonZeroU64;
use std::time::Instant;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::elf::LoadSegment;
use bigiron_format::elf::write::CoreLayout;
use bigiron_format::{PageFrame, PhysAddr, VirtAddr};
use bigiron_helpers::{Turnstile, WorkCursor, run};
use bigiron_kernel::{Filter, PageReader, SECTION_FRAMES};

use crate::bitmaps::BitmapStore;
use crate::chunks::Chunks;
use crate::error::DumpError;
use crate::losses::Losses;
use crate::notes::output_notes;
use crate::output::{FileOutput, Output};
use crate::page::is_zero;
use crate::plan::{self, Plan};
use crate::progress::Phase;
use crate::summary::Summary;
use crate::task::{Task, Written, end_phase, summarize_plan};

/// A shorter run of pages to leave out stays in the file, so that readers get
/// a short list of segments (PFN_EXCLUDED of makedumpfile).
const LEAST_GAP: u64 = 256;
/// Segments that readers still cope with; beyond, longer gaps stay in.
const MAX_SEGMENTS: usize = 1 << 20;
/// Page frames that a helper takes at once.
const UNIT_FRAMES: u64 = 512;
/// Memory begins at a multiple of this, so that it can be mapped.
const PAGE_ALIGNMENT: u64 = 4096;

/// Filters, then writes a whole core. `sized` is the output if it is a file,
/// where zeros need not be written.
pub fn write(
    task: &Task,
    filter: &Filter,
    output: &dyn Output,
    sized: Option<&FileOutput>,
    summary: &mut Summary,
) -> Result<Written, DumpError> {
    let begin = Instant::now();
    let chunks = Chunks::of(task.kernel.source());
    let store = BitmapStore::of(task, None, chunks.len(), u64::MAX);
    let drop_zero = task.drops_zero_pages();
    let plan = plan::make(task, filter, chunks, &store, drop_zero, &|_, _, _| Ok(()))?;
    summarize_plan(task, &plan, summary);
    let mut gap = LEAST_GAP;
    let segments = loop {
        let segments = segments(task, filter, &plan, &store, gap)?;
        if segments.len() <= MAX_SEGMENTS {
            break segments;
        }
        gap *= 2;
    };
    end_phase(summary, Phase::Filtering, begin);

    let begin = Instant::now();
    let source = task.kernel.source();
    let mut layout = CoreLayout {
        machine: bigiron_kernel::arch::find(source.machine())?.elf_machine,
        endian: source.endian(),
        notes: output_notes(task.kernel, true).bytes,
        segments,
    };
    let size = layout
        .place(PAGE_ALIGNMENT)
        .ok_or_else(|| DumpError::Layout("the core would be longer than 2^64 bytes".into()))?;
    // Zero pages are not written.
    output.make_zero(0, size).map_err(|e| task.write_error(e))?;
    let put = |bytes: Vec<u8>| {
        task.progress.add_written(bytes.len() as u64);
        output.write_at(0, &bytes)
    };
    // In a stream nothing can be mended later.
    put(layout.encode(!output.is_stream())).map_err(|e| task.write_error(e))?;
    if let Some(file) = sized {
        let most = task.options.size_limit.map_or(u64::MAX, NonZeroU64::get);
        file.set_size(size.min(most))
            .map_err(|e| task.write_error(e))?;
    }
    copy(task, output, &layout.segments, summary)?;
    end_phase(summary, Phase::Copying, begin);

    let begin = Instant::now();
    task.progress.begin(Phase::Finishing, 0);
    let incomplete = summary.lost > 0 || task.kernel.damage().is_some();
    if !output.is_stream() {
        put(layout.encode(incomplete)).map_err(|e| task.write_error(e))?;
    }
    output.finish().map_err(|e| task.write_error(e))?;
    end_phase(summary, Phase::Finishing, begin);
    Ok(Written)
}

/// Divides RAM into segments by which pages are kept.
fn segments(
    task: &Task,
    filter: &Filter,
    plan: &Plan,
    store: &BitmapStore,
    least_gap: u64,
) -> Result<Vec<LoadSegment>, DumpError> {
    let source = task.kernel.source();
    let mut reader = source.reader(task.options.io);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut kept = Bitmap::new(SECTION_FRAMES as usize);
    let mut present = Bitmap::new(SECTION_FRAMES as usize);
    let mut builder = Builder {
        task,
        plan,
        least_gap,
        out: Vec::new(),
        open: None,
    };
    for (index, chunk) in plan.chunks.iter().enumerate() {
        source.ram(chunk.first, &mut ram)?;
        source.present(chunk.first, &mut present)?;
        let place = (index, chunk.first);
        plan::load_kept(task, store, filter, reader.as_mut(), place, &mut kept)?;
        let mut from = 0;
        while let Some((start, len)) = ram.next_run(from, ram.len(), ram.len()) {
            from = start + len;
            builder.ram(chunk.first.0, start, from, &kept, &present);
        }
    }
    builder.close(None);
    Ok(builder.out)
}

/// The segment that is being built.
struct Open {
    start: u64,
    /// Behind the last page that is in the file.
    data_end: u64,
    /// Behind the last page of RAM.
    end: u64,
    /// Behind the last page that may not be written even in a short gap.
    barred_end: u64,
    virt: Option<VirtAddr>,
}

struct Builder<'a, 's> {
    task: &'a Task<'a, 's>,
    plan: &'a Plan,
    least_gap: u64,
    out: Vec<LoadSegment>,
    open: Option<Open>,
}

impl Builder<'_, '_> {
    /// Takes RAM from bit `start` to `end` of the chunk at frame `base`.
    fn ram(&mut self, base: u64, start: usize, end: usize, kept: &Bitmap, present: &Bitmap) {
        let first = base + start as u64;
        let virt = self.task.kernel.source().virtual_address(PageFrame(first));
        let shift = self.task.kernel.source().page_shift();
        let goes_on = self.open.as_ref().is_some_and(|open| {
            let expected = open
                .virt
                .map(|virt| VirtAddr(virt.0.wrapping_add((first - open.start) << shift)));
            open.end == first && expected == virt
        });
        if !goes_on {
            self.close(None);
            self.open = Some(Open {
                start: first,
                data_end: first,
                end: first,
                barred_end: first,
                virt,
            });
        }
        let mut at = start;
        while at < end {
            match kept.next_run(at, end, end) {
                Some((run, len)) => {
                    self.gap(base, at, run, present);
                    self.data(base + run as u64, base + (run + len) as u64);
                    at = run + len;
                }
                None => {
                    self.gap(base, at, end, present);
                    at = end;
                }
            }
        }
    }

    /// Pages that are left out. What the source has not got, and broken memory,
    /// cannot be written even in a short gap.
    fn gap(&mut self, base: u64, start: usize, end: usize, present: &Bitmap) {
        let Some(open) = &mut self.open else { return };
        open.end = base + end as u64;
        let range = base + start as u64..open.end;
        let from = self
            .plan
            .poisoned
            .partition_point(|frame| frame.0 < range.start);
        let poisoned = self
            .plan
            .poisoned
            .get(from)
            .is_some_and(|frame| range.contains(&frame.0));
        let all = present
            .next_run(start, end, end)
            .is_some_and(|run| run == (start, end - start));
        if start < end && (poisoned || !all) {
            open.barred_end = open.end;
        }
    }

    /// Pages that are kept.
    fn data(&mut self, start: u64, end: u64) {
        let Some(open) = &self.open else { return };
        let gap = start - open.data_end;
        if gap >= self.least_gap || (gap > 0 && open.barred_end > open.data_end) {
            self.close(Some(start));
        }
        if let Some(open) = &mut self.open {
            open.data_end = end;
            open.end = end;
        }
    }

    /// Ends the open segment, at `next` if RAM goes on there.
    fn close(&mut self, next: Option<u64>) {
        let Some(open) = self.open.take() else { return };
        let shift = self.task.kernel.source().page_shift();
        let end = next.unwrap_or(open.end);
        if end > open.start {
            self.out.push(LoadSegment {
                file_offset: 0,
                file_size: (open.data_end - open.start) << shift,
                physical: PhysAddr(open.start << shift),
                virt: open.virt.unwrap_or_default(),
                memory_size: (end - open.start) << shift,
            });
        }
        if let Some(start) = next {
            let bytes = (start - open.start) << shift;
            self.open = Some(Open {
                start,
                data_end: start,
                end: start,
                barred_end: start,
                virt: open.virt.map(|virt| VirtAddr(virt.0.wrapping_add(bytes))),
            });
        }
    }
}

/// Copies the pages of all segments.
fn copy(
    task: &Task,
    output: &dyn Output,
    segments: &[LoadSegment],
    summary: &mut Summary,
) -> Result<(), DumpError> {
    let page_size = task.page_size() as u64;
    let unit_size = UNIT_FRAMES * page_size;
    let mut ends = Vec::with_capacity(segments.len());
    let mut units = 0;
    for segment in segments {
        units += segment.file_size.div_ceil(unit_size);
        ends.push(units);
    }
    let total: u64 = segments
        .iter()
        .map(|segment| segment.file_size / page_size)
        .sum();
    task.progress.begin(Phase::Copying, total);
    summary.in_elf = Some(total);
    let (cursor, turnstile) = (WorkCursor::new(units), Turnstile::new());
    let results = run(task.helpers, task.stop, |_| -> Result<_, DumpError> {
        let mut reader = task.kernel.source().reader(task.options.io);
        let (mut lost, mut bytes_in) = (Losses::default(), 0);
        while let Some(unit) = cursor.take(task.stop) {
            let index = ends.partition_point(|end| *end <= unit);
            let segment = &segments[index];
            let before = if index == 0 { 0 } else { ends[index - 1] };
            let start = (unit - before) * unit_size;
            let size = unit_size.min(segment.file_size - start);
            let frame = PageFrame((segment.physical.0 + start) / page_size);
            let bytes = read_all(task, reader.as_mut(), frame, size as usize, &mut lost)?;
            bytes_in += size;
            let offset = segment.file_offset + start;
            let written = if output.is_stream() {
                turnstile.pass(unit, task.stop, || output.write_at(offset, &bytes))
            } else {
                Some(write_without_zeros(task, output, offset, &bytes))
            };
            match written {
                Some(result) => result.map_err(|e| task.write_error(e))?,
                None => break,
            }
            task.progress.add_written(size);
            task.progress.add(size / page_size);
        }
        Ok((lost, bytes_in))
    })?;
    let mut losses = Losses::default();
    for (lost, bytes_in) in results {
        summary.bytes_in += bytes_in;
        losses.merge(lost);
    }
    losses.report(
        summary,
        "an ELF core cannot mark what is lost, so it is zeros, and the dump is marked incomplete",
    );
    task.check_interrupted()
}

/// Reads `size` bytes of pages; lost ones are zeros.
fn read_all(
    task: &Task,
    reader: &mut dyn PageReader,
    first: PageFrame,
    size: usize,
    lost: &mut Losses,
) -> Result<Vec<u8>, DumpError> {
    let page_size = task.page_size();
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        let frame = PageFrame(first.0 + (bytes.len() / page_size) as u64);
        match reader.pages(frame, (size - bytes.len()) / page_size) {
            Ok(pages) => bytes.extend_from_slice(pages),
            Err(error) if error.is_one_page() => {
                lost.add(frame, &error);
                bytes.resize(bytes.len() + page_size, 0);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// Leaves holes in the file where pages are zero.
fn write_without_zeros(
    task: &Task,
    output: &dyn Output,
    offset: u64,
    bytes: &[u8],
) -> std::io::Result<()> {
    let page_size = task.page_size();
    let (mut start, mut at) = (0, 0);
    for page in bytes.chunks(page_size) {
        if is_zero(page) {
            if start < at {
                output.write_at(offset + start as u64, &bytes[start..at])?;
            }
            start = at + page.len();
        }
        at += page.len();
    }
    if start < at {
        output.write_at(offset + start as u64, &bytes[start..at])
    } else {
        Ok(())
    }
}
