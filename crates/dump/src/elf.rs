//! Writes ELF cores, to a file or to a stream.
//!
//! A program header describes RAM whose first pages are in the file and whose remaining pages
//! are excluded (p_filesz < p_memsz), as makedumpfile -E writes it.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::elf::LoadSegment;
use bigiron_format::elf::write::CoreLayout;
use bigiron_format::{PageFrame, PhysAddr, VirtAddr};
use bigiron_helpers::{Turnstile, WorkCursor, run};
use bigiron_kernel::{AlignedBuffer, PageReader, SECTION_FRAMES, arch};

use crate::driver::FormatWriter;
use crate::error::DumpError;
use crate::job::DumpJob;
use crate::kept_pages::KeptPages;
use crate::kernel_addresses;
use crate::losses::Losses;
use crate::notes::{NotesGoal, output_notes};
use crate::output::Part;
use crate::page::is_zero;
use crate::plan::Plan;
use crate::read_pages::take_runs;
use crate::summary::Summary;

/// A shorter run of excluded pages stays in the file, so that readers get a short list of
/// segments (PFN_EXCLUDED of makedumpfile).
const MIN_GAP: u64 = 256;
/// Maximum number of segments that readers support; beyond it, longer gaps stay in the file.
const MAX_SEGMENTS: usize = 1 << 20;
/// Page frames of a batch.
const BATCH_FRAMES: u64 = 512;
/// Minimum alignment of memory in the file, so that it can be mapped.
const PAGE_ALIGNMENT: u64 = 4096;

/// The headers of a core.
pub struct ElfLayout {
    core: CoreLayout,
    /// Number of segments of RAM. The data of those that follow is in these.
    ram: usize,
}

impl ElfLayout {
    fn ram(&self) -> &[LoadSegment] {
        &self.core.segments[..self.ram]
    }
}

/// Writer of ELF cores.
pub struct ElfWriter<'a, 's> {
    job: &'a DumpJob<'a, 's>,
    parts: &'a [Part<'a>],
}

impl<'a, 's> ElfWriter<'a, 's> {
    /// Creates the writer of a core in `parts`.
    pub fn new(job: &'a DumpJob<'a, 's>, parts: &'a [Part<'a>]) -> Self {
        Self { job, parts }
    }

    /// Copies the batches of `segments` that end with the numbers in `ends`.
    fn copy_batches(
        &self,
        part: &Part,
        segments: &[LoadSegment],
        ends: &[u64],
    ) -> Result<Vec<(Losses, u64)>, DumpError> {
        let (job, page_size) = (self.job, self.job.page_size());
        let batch_size = BATCH_FRAMES * page_size as u64;
        let cursor = WorkCursor::new(ends.last().copied().unwrap_or(0));
        let turnstile = Turnstile::new();
        run(job.helpers_for(self.parts), job.stop, |_| {
            let mut reader = job.reader();
            let mut buffer = AlignedBuffer::new(batch_size as usize);
            let (mut losses, mut bytes_in) = (Losses::default(), 0);
            while let Some(batch) = cursor.take(job.stop) {
                let index = ends.partition_point(|end| *end <= batch);
                let segment = &segments[index];
                let before = if index == 0 { 0 } else { ends[index - 1] };
                let start = (batch - before) * batch_size;
                let size = batch_size.min(segment.file_size - start);
                let frame = PageFrame((segment.physical.0 + start) / page_size as u64);
                let bytes = &mut buffer[..size as usize];
                read_all(reader.as_mut(), page_size, frame, bytes, &mut losses)?;
                bytes_in += size;
                let offset = segment.file_offset + start;
                if part.is_stream() {
                    let write = || part.write_at(offset, bytes);
                    let Some(written) = turnstile.pass(batch, job.stop, write) else {
                        break;
                    };
                    written?;
                } else {
                    self.write_without_zeros(part, offset, bytes)?;
                }
                job.progress.add(size / page_size as u64);
            }
            Ok((losses, bytes_in))
        })
    }

    /// Leaves holes in the file for zero pages.
    fn write_without_zeros(&self, part: &Part, offset: u64, bytes: &[u8]) -> Result<(), DumpError> {
        let (mut start, mut at) = (0, 0);
        let write = |start: usize, end: usize| match start < end {
            true => part.write_at(offset + start as u64, &bytes[start..end]),
            false => Ok(()),
        };
        for page in bytes.chunks(self.job.page_size()) {
            if is_zero(page) {
                write(start, at)?;
                start = at + page.len();
                // The file is as long as if they were written.
                self.job.progress.add_written(page.len() as u64);
            }
            at += page.len();
        }
        write(start, at)
    }
}

impl FormatWriter for ElfWriter<'_, '_> {
    type Layout = ElfLayout;

    fn lay_out(&self, kept: &KeptPages) -> Result<ElfLayout, DumpError> {
        let source = self.job.subject.source();
        let mut gap = MIN_GAP;
        let mut segments = loop {
            let segments = segments(kept, gap)?;
            if segments.len() <= MAX_SEGMENTS {
                break segments;
            }
            gap *= 2;
        };
        let ram = segments.len();
        let kernel = self.job.subject.kernel();
        let aliases = kernel_addresses::complete(source, kernel, &mut segments)?;
        segments.extend(aliases);
        let goal = NotesGoal::Elf {
            left_out: Some(self.job.left_out()),
        };
        let text = self.job.subject.vmcoreinfo_text();
        let rules = self.job.record_of_rules();
        let core = CoreLayout {
            machine: arch::find(source.machine())?.elf_machine,
            endian: source.endian(),
            notes: output_notes(source, text, goal, &rules).bytes,
            segments,
        };
        Ok(ElfLayout { core, ram })
    }

    fn begin_copy(&self, _: &KeptPages, layout: &mut ElfLayout) -> Result<(), DumpError> {
        let alignment = PAGE_ALIGNMENT.max(self.job.page_size() as u64);
        let size = layout
            .core
            .place(alignment)
            .ok_or_else(|| DumpError::Layout("the core would be longer than 2^64 bytes".into()))?;
        let (ram, aliases) = layout.core.segments.split_at_mut(layout.ram);
        kernel_addresses::place(aliases, ram);
        for part in self.parts {
            // Zero pages are not written.
            part.make_zero(0, size)?;
            // The headers of a stream cannot be changed later.
            part.write_at(0, &layout.core.encode(!part.is_stream()))?;
            part.set_size(size)?;
        }
        Ok(())
    }

    fn copy_total(&self, _: &KeptPages, layout: &ElfLayout) -> u64 {
        let shift = self.job.subject.source().page_shift();
        let segments = layout.ram().iter();
        segments.map(|segment| segment.file_size >> shift).sum()
    }

    fn copy(
        &self,
        kept: &KeptPages,
        layout: &mut ElfLayout,
        summary: &mut Summary,
    ) -> Result<(), DumpError> {
        summary.in_elf = Some(self.copy_total(kept, layout));
        let batch_size = BATCH_FRAMES * self.job.page_size() as u64;
        let mut ends = Vec::with_capacity(layout.ram);
        let mut batches = 0;
        for segment in layout.ram() {
            batches += segment.file_size.div_ceil(batch_size);
            ends.push(batches);
        }
        let mut losses = Losses::default();
        for part in self.parts {
            for (lost, bytes_in) in self.copy_batches(part, layout.ram(), &ends)? {
                summary.bytes_in += bytes_in;
                losses.merge(lost);
            }
        }
        losses.report(
            summary,
            "an ELF core cannot mark what is lost, so it is zeros, and the dump is marked incomplete",
        );
        Ok(())
    }

    fn finish(
        &mut self,
        _: &KeptPages,
        layout: ElfLayout,
        complete: bool,
        _: &Summary,
    ) -> Result<(), DumpError> {
        for part in self.parts.iter().filter(|part| !part.is_stream()) {
            part.write_at(0, &layout.core.encode(!complete))?;
        }
        Ok(())
    }
}

/// Fills `bytes` with the pages from `first` on; unreadable ones are zeros.
fn read_all(
    reader: &mut dyn PageReader,
    page_size: usize,
    first: PageFrame,
    bytes: &mut [u8],
    losses: &mut Losses,
) -> Result<(), DumpError> {
    let count = bytes.len() / page_size;
    let rest = |from| (from < count).then(|| (from, count - from));
    take_runs(first, 0, rest, |frame, count| {
        let start = (frame.0 - first.0) as usize * page_size;
        let room = &mut bytes[start..start + count * page_size];
        match reader.copy_pages(frame, count, room) {
            Ok(read) => Ok(read / page_size),
            Err(error) if error.is_one_page() => {
                losses.add(frame, &error);
                room[..page_size].fill(0);
                Ok(1)
            }
            Err(error) => Err(error.into()),
        }
    })
}

/// Divides RAM into segments by the kept pages.
fn segments(kept: &KeptPages, min_gap: u64) -> Result<Vec<LoadSegment>, DumpError> {
    let (job, plan) = (kept.job, &kept.plan);
    let source = job.subject.source();
    let mut cursor = kept.cursor();
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut present = Bitmap::new(SECTION_FRAMES as usize);
    let mut builder = SegmentBuilder {
        job,
        plan,
        min_gap,
        out: Vec::new(),
        open: None,
    };
    for (index, section) in plan.sections.iter().enumerate() {
        source.ram(section.first, &mut ram)?;
        source.present(section.first, &mut present)?;
        let kept = cursor.load(index)?;
        let mut from = 0;
        while let Some((start, len)) = ram.next_run(from, ram.len(), ram.len()) {
            from = start + len;
            builder.ram(section.first.0, start, from, kept, &present);
        }
    }
    builder.close(None);
    Ok(builder.out)
}

/// The segment that is being built.
struct OpenSegment {
    start: u64,
    /// End of the last page that is in the file.
    data_end: u64,
    /// End of the last page of RAM.
    end: u64,
    /// End of the last page that must not be written even in a short gap.
    barred_end: u64,
    virt: Option<VirtAddr>,
}

/// Builds segments from runs of RAM.
struct SegmentBuilder<'a, 's> {
    job: &'a DumpJob<'a, 's>,
    plan: &'a Plan,
    min_gap: u64,
    out: Vec<LoadSegment>,
    open: Option<OpenSegment>,
}

impl SegmentBuilder<'_, '_> {
    /// Adds RAM from bit `start` to `end` of the section at frame `base`.
    fn ram(&mut self, base: u64, start: usize, end: usize, kept: &Bitmap, present: &Bitmap) {
        let first = base + start as u64;
        let virt = self.job.subject.source().virtual_address(PageFrame(first));
        let shift = self.job.subject.source().page_shift();
        let continues = self.open.as_ref().is_some_and(|open| {
            let expected = open
                .virt
                .map(|virt| VirtAddr(virt.0.wrapping_add((first - open.start) << shift)));
            open.end == first && expected == virt
        });
        if !continues {
            self.close(None);
            self.open = Some(OpenSegment {
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

    /// Adds excluded pages. Pages that are not in the source, and broken memory, cannot be written
    /// even in a short gap.
    fn gap(&mut self, base: u64, start: usize, end: usize, present: &Bitmap) {
        let Some(open) = &mut self.open else { return };
        open.end = base + end as u64;
        let range = base + start as u64..open.end;
        let from = self
            .plan
            .poisoned
            .partition_point(|run| run.end.0 <= range.start);
        let poisoned = self
            .plan
            .poisoned
            .get(from)
            .is_some_and(|run| run.start.0 < range.end);
        let all = present
            .next_run(start, end, end)
            .is_some_and(|run| run == (start, end - start));
        if start < end && (poisoned || !all) {
            open.barred_end = open.end;
        }
    }

    /// Adds kept pages.
    fn data(&mut self, start: u64, end: u64) {
        let Some(open) = &self.open else { return };
        let gap = start - open.data_end;
        if gap >= self.min_gap || (gap > 0 && open.barred_end > open.data_end) {
            self.close(Some(start));
        }
        if let Some(open) = &mut self.open {
            open.data_end = end;
            open.end = end;
        }
    }

    /// Ends the open segment, at `next` if RAM continues there.
    fn close(&mut self, next: Option<u64>) {
        let Some(open) = self.open.take() else { return };
        let shift = self.job.subject.source().page_shift();
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
            self.open = Some(OpenSegment {
                start,
                data_end: start,
                end: start,
                barred_end: start,
                virt: open.virt.map(|virt| VirtAddr(virt.0.wrapping_add(bytes))),
            });
        }
    }
}
