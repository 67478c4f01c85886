//! Writes kdump-compressed dumps: to a file, flattened to a stream, or split over several
//! files, each with all bitmaps and the pages of its own range of page frames (makedumpfile
//! --split).
//!
//! The bitmaps determine how many pages precede each section, so a helper knows the offset of
//! its page descriptors without waiting for others. Data may be anywhere: each helper takes the
//! next free extent of the file.

mod adaptive;
mod batch;
mod batch_builder;
mod equal_search;
mod headers;
mod part_copy;
mod repeated_pages;
mod share;
mod thread_time;
mod write_queue;

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::kdump::KdumpHeaders;
use bigiron_helpers::{WorkCursor, run};
use bigiron_kernel::SECTION_FRAMES;

use crate::bitmaps::SECTION_BYTES;
use crate::driver::FormatWriter;
use crate::error::DumpError;
use crate::format::PageCompression;
use crate::job::DumpJob;
use crate::kept_pages::KeptPages;
use crate::options::DumpOptions;
use crate::output::Part;
use crate::sections::Sections;
use crate::summary::Summary;

use adaptive::STRENGTHS;
use batch::end_of_zeros;
use part_copy::{Copied, PartCopy};
use share::{Share, divide};

/// Maximum size of the bitmaps of absent memory in a stream: 8 TiB of address space.
const MAX_GAPS: u64 = 256 << 20;
/// Maximum memory of bitmaps that cannot be read back from the output: those of 128 GiB of RAM.
/// Above it, the filter runs a second time, which takes less than a second for each 100 GiB.
const MAX_BITMAP_MEMORY: u64 = 4 << 20;

/// Writer of kdump-compressed dumps.
pub struct KdumpWriter<'a, 's> {
    job: &'a DumpJob<'a, 's>,
    parts: &'a [Part<'a>],
    compression: PageCompression,
    /// Parts begin at multiples of this number of page frames.
    granule: u64,
    headers: KdumpHeaders,
}

impl<'a, 's> KdumpWriter<'a, 's> {
    /// Creates the writer of a dump in `parts`.
    pub fn new(
        job: &'a DumpJob<'a, 's>,
        parts: &'a [Part<'a>],
        compression: PageCompression,
        granule: u64,
    ) -> Self {
        Self {
            job,
            parts,
            compression,
            granule,
            headers: headers::make_headers(job, compression),
        }
    }

    /// Writes the bitmaps of sections without RAM, since a stream must not have gaps.
    fn fill_bitmap_gaps(&self, part: &Part, sections: &Sections) -> Result<(), DumpError> {
        let layout = &self.headers.layout;
        let planned_bytes = sections.len() as u64 * SECTION_BYTES as u64;
        let gaps = layout.bitmap_size.saturating_sub(planned_bytes);
        let ram = sections.len() as u64 * SECTION_FRAMES * self.job.page_size() as u64;
        if gaps > MAX_GAPS && gaps > ram {
            return Err(DumpError::Layout(format!(
                "memory goes on to page frame {:#x}, and a stream cannot skip the {} bytes of \
                 bitmaps for what is not there; write to a file",
                self.job.subject.source().end_frame().0,
                2 * gaps
            )));
        }
        let firsts = sections.iter().map(|section| section.first.0 / 8);
        let mut planned = firsts.peekable();
        let mut offset = 0;
        while offset < layout.bitmap_size {
            let len = (SECTION_BYTES as u64).min(layout.bitmap_size - offset);
            if planned.next_if_eq(&offset).is_none() {
                for bitmap in [layout.ram_bitmap(), layout.dumped_bitmap()] {
                    part.write_at(bitmap + offset, &[0; SECTION_BYTES][..len as usize])?;
                }
            }
            offset += len;
        }
        Ok(())
    }
}

impl FormatWriter for KdumpWriter<'_, '_> {
    /// The share of each part.
    type Layout = Vec<Share>;

    fn bitmap_offset(&self) -> Option<u64> {
        Some(self.headers.layout.dumped_bitmap())
    }

    fn bitmap_memory(&self) -> u64 {
        MAX_BITMAP_MEMORY
    }

    fn begin_filter(&self, sections: &Sections) -> Result<(), DumpError> {
        let layout = &self.headers.layout;
        for part in self.parts {
            if part.is_stream() {
                // A stream is incomplete until its end record, and some readers accept no record
                // twice.
                let mut headers = self.headers.clone();
                headers.incomplete = false;
                part.write_at(0, &headers.encode())?;
                self.fill_bitmap_gaps(part, sections)?;
            } else {
                // A device holds bitmaps and descriptors of an older dump, which must not be
                // taken for this dump's. Bitmaps have gaps where there is no RAM.
                part.make_zero(0, layout.ram_bitmap() + 2 * layout.bitmap_size)?;
            }
        }
        Ok(())
    }

    /// Each part has all bitmaps.
    fn take_bitmaps(&self, first: PageFrame, ram: &Bitmap, kept: &Bitmap) -> Result<(), DumpError> {
        let (layout, offset) = (&self.headers.layout, first.0 / 8);
        let len = SECTION_BYTES.min(layout.bitmap_size.saturating_sub(offset) as usize);
        if len == 0 {
            return Ok(());
        }
        for part in self.parts {
            part.write_at(layout.ram_bitmap() + offset, &ram.as_bytes()[..len])?;
            part.write_at(layout.dumped_bitmap() + offset, &kept.as_bytes()[..len])?;
        }
        Ok(())
    }

    fn lay_out(&self, kept: &KeptPages) -> Result<Vec<Share>, DumpError> {
        divide(kept, self.parts.len(), self.granule)
    }

    fn begin_copy(&self, kept: &KeptPages, _: &mut Vec<Share>) -> Result<(), DumpError> {
        let layout = &self.headers.layout;
        // makedumpfile --reassemble expects the page of zeros after as many descriptors as the
        // whole dump has, in each part.
        let zero_page = layout.descriptor(kept.plan.kept);
        let end = end_of_zeros(layout, kept.plan.kept, self.job.page_size());
        let zeros = vec![0; (end - zero_page) as usize];
        for part in self.parts {
            // A descriptor that is never written must mark its page as lost.
            part.make_zero(layout.descriptors(), zero_page - layout.descriptors())?;
        }
        // The page of a descriptor depends on all bitmaps before it: it must not be on the disk
        // without them.
        self.parts.iter().try_for_each(Part::sync)?;
        for part in self.parts {
            if !part.is_stream() {
                part.write_at(0, &self.headers.encode())?;
            }
            part.write_at(zero_page, &zeros)?;
        }
        Ok(())
    }

    /// Copies several parts at the same time.
    fn copy(
        &self,
        kept: &KeptPages,
        shares: &mut Vec<Share>,
        summary: &mut Summary,
    ) -> Result<(), DumpError> {
        let (helpers, stop) = (self.job.helpers_for(self.parts), self.job.stop);
        let at_once = helpers.min(shares.len()).max(1);
        let helpers = (helpers / at_once).max(1);
        let (cursor, shares) = (WorkCursor::new(shares.len() as u64), &*shares);
        let results = run(at_once, stop, |_| {
            let mut copied = Copied::default();
            while let Some(index) = cursor.take(stop) {
                let (part, share) = (&self.parts[index as usize], &shares[index as usize]);
                let (layout, compression) = (self.headers.layout, self.compression);
                let copy = PartCopy::new(kept, share, part, layout, compression, helpers);
                copy.run(&mut copied)?;
            }
            Ok::<_, DumpError>(copied)
        })?;
        let mut copied = Copied::default();
        results.into_iter().for_each(|other| copied.merge(other));
        copied.report(summary);
        Ok(())
    }

    fn finish(
        &mut self,
        kept: &KeptPages,
        shares: Vec<Share>,
        complete: bool,
        _summary: &Summary,
    ) -> Result<(), DumpError> {
        let end = self.headers.end_frame;
        let mut nexts = shares.iter().skip(1);
        let mut start = 0;
        let is_split = self.parts.len() > 1;
        self.headers.incomplete = !complete;
        if is_split || complete != self.parts[0].is_stream() {
            // The header must not be on a disk that then refuses a page.
            self.parts.iter().try_for_each(Part::sync)?;
            for part in self.parts {
                let next = nexts.next();
                let next = next.map_or(end, |next| next.first_frame(&kept.plan, end));
                self.headers.split = is_split.then_some((start, next));
                part.write_at(0, &self.headers.encode())?;
                start = next;
            }
        }
        Ok(())
    }
}

/// Returns the memory of the queues to the writer thread of one part, and that of one helper's
/// codecs.
pub fn memory_needed(
    compression: PageCompression,
    is_stream: bool,
    options: &DumpOptions,
) -> (u64, u64) {
    const PAGE_SIZE: u64 = 4096;
    let adaptive = compression == PageCompression::Adaptive;
    let queue = if adaptive || options.write_limit.is_some() || is_stream {
        // The writer holds one batch more.
        let batches = write_queue::queue_capacity(options.threads) as u64 + 1;
        batches * batch::BATCH_FRAMES * PAGE_SIZE
    } else {
        0
    };
    let contexts = match compression {
        PageCompression::Fixed(fixed) => fixed.context_bytes(),
        PageCompression::Adaptive => {
            let contexts = STRENGTHS
                .iter()
                .map(|strength| strength.compression.context_bytes());
            contexts.sum()
        }
    };
    (queue, contexts as u64)
}
