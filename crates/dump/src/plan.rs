//! The first pass: determines the kept pages, and the rank of each section's first one.

use std::sync::atomic::{AtomicU16, Ordering};

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, PageFrameRange};
use bigiron_helpers::{WorkCursor, run};
use bigiron_kernel::filter::SectionResult;
use bigiron_kernel::{ExcludedCounts, GuardedCounts, PageReader, SECTION_FRAMES};

use crate::bitmaps::BitmapStore;
use crate::error::DumpError;
use crate::job::DumpJob;
use crate::page::is_zero;
use crate::progress::Phase;
use crate::read_pages::read_pages;
use crate::sections::Sections;
use crate::struct_pages::Scan;

/// Pages read at once in the search for zero pages.
const ZERO_SCAN_PAGES: usize = 64;

/// Result of the filter for all sections.
#[derive(Debug, Default)]
pub struct Plan {
    /// The sections that have RAM, in order, and the number of pages kept of each.
    pub sections: Sections,
    /// Pages kept.
    pub kept: u64,
    /// Page frames of RAM.
    pub ram: u64,
    /// Excluded page frames.
    pub excluded: ExcludedCounts,
    /// Page frames that are kept although the level excludes their class.
    pub guarded: GuardedCounts,
    /// Page frames that are kept because of a rule.
    pub kept_by_rules: u64,
    /// Page frames that are kept without their contents because of a rule.
    pub blanked_by_rules: u64,
    /// Zero pages that were found and excluded already (for ELF).
    pub zero: u64,
    /// Struct pages that were classified.
    pub scanned: u64,
    /// Struct pages that could not be read.
    pub unreadable: u64,
    /// Page frames that are free for the hypervisor of a Xen host.
    pub hypervisor_free: u64,
    /// Page frames of dom0 that are free for its kernel.
    pub dom0_free: u64,
    /// Page frames of RAM whose struct pages were not read.
    pub undescribed: u64,
    /// Page frames of broken memory, sorted; see `SectionResult::poisoned`.
    pub poisoned: Vec<PageFrameRange>,
}

/// Receives each section's bitmaps as they are made: of RAM and of kept pages.
pub type TakeBitmaps<'a> = dyn Fn(PageFrame, &Bitmap, &Bitmap) -> Result<(), DumpError> + Sync + 'a;

/// Filters all sections in parallel.
pub fn make(
    job: &DumpJob,
    mut sections: Sections,
    store: &BitmapStore,
    take: &TakeBitmaps,
) -> Result<Plan, DumpError> {
    let progress = job.progress;
    progress.begin(Phase::Filtering, sections.len() as u64 * SECTION_FRAMES);
    let dom0 = scan_dom0(job)?;
    if job.options.without_struct_pages {
        leave_out_struct_pages(job, &sections)?;
        progress.begin(Phase::Filtering, sections.len() as u64 * SECTION_FRAMES);
    }
    let cursor = WorkCursor::new(sections.len() as u64);
    let planned = &sections;
    #[cfg(feature = "sample")]
    let sample = job.options.sample;
    let counts: Vec<AtomicU16> = (0..sections.len()).map(|_| AtomicU16::new(0)).collect();
    let results = run(job.helpers, job.stop, |_| -> Result<_, DumpError> {
        let mut reader = job.reader();
        let mut ram = Bitmap::new(SECTION_FRAMES as usize);
        let mut kept = Bitmap::new(SECTION_FRAMES as usize);
        let mut sum = Plan::default();
        while let Some(index) = cursor.take(job.stop) {
            let first = planned.at(index as usize).first;
            #[cfg(feature = "sample")]
            if !sample.is_none_or(|sample| sample.has_section(index)) {
                kept.clear();
                store.store(index as usize, &kept);
                progress.add(SECTION_FRAMES);
                continue;
            }
            let section = job
                .filter
                .scan_section(reader.as_mut(), first, &mut ram, &mut kept)
                .map_err(|source| job.filter_error(source))?;
            #[cfg(feature = "sample")]
            if let Some(sample) = sample {
                sample.select(first, &mut kept);
            }
            if job.drops_zero_pages {
                sum.zero += drop_zero_pages(job, reader.as_mut(), first, &mut kept)?;
            }
            store.store(index as usize, &kept);
            take(first, &ram, &kept)?;
            counts[index as usize].store(kept.count() as u16, Ordering::Relaxed);
            sum.ram += section.ram;
            sum.excluded.add(&section.excluded);
            sum.guarded.add(&section.guarded);
            sum.kept_by_rules += section.kept_by_rules;
            sum.blanked_by_rules += section.blanked_by_rules;
            sum.scanned += section.scanned;
            sum.unreadable += section.unreadable;
            sum.undescribed += section.undescribed;
            sum.hypervisor_free += section.hypervisor_free;
            sum.poisoned.extend(section.poisoned);
            progress.add(SECTION_FRAMES);
        }
        Ok(sum)
    })?;
    job.check_interrupted()?;

    let mut plan = Plan {
        scanned: dom0.scanned,
        unreadable: dom0.unreadable,
        dom0_free: dom0.excluded.free + dom0.excluded.unaccepted,
        ..Plan::default()
    };
    for sum in results {
        plan.ram += sum.ram;
        plan.excluded.add(&sum.excluded);
        plan.guarded.add(&sum.guarded);
        plan.kept_by_rules += sum.kept_by_rules;
        plan.blanked_by_rules += sum.blanked_by_rules;
        plan.zero += sum.zero;
        plan.scanned += sum.scanned;
        plan.unreadable += sum.unreadable;
        plan.undescribed += sum.undescribed;
        plan.hypervisor_free += sum.hypervisor_free;
        plan.poisoned.extend(sum.poisoned);
    }
    sections.set_kept(counts.into_iter().map(AtomicU16::into_inner).collect());
    plan.kept = sections.kept();
    plan.poisoned.sort_unstable_by_key(|run| run.start);
    plan.sections = sections;
    Ok(plan)
}

/// Lets the filter leave out the pages of the memory map that describe no kept page.
fn leave_out_struct_pages(job: &DumpJob, sections: &Sections) -> Result<(), DumpError> {
    let scan = Scan {
        helpers: job.helpers,
        stop: job.stop,
        io: job.options.io,
        progress: job.progress,
    };
    scan.leave_out_struct_pages(job.subject.source(), &job.filter, sections)
        .map_err(|source| job.filter_error(source))?;
    job.check_interrupted()
}

/// Filters the memory of dom0 of a Xen host by its kernel, before the host's memory is filtered;
/// returns what was found.
fn scan_dom0(job: &DumpJob) -> Result<SectionResult, DumpError> {
    let mut found = SectionResult::default();
    let Some(dom0) = job.filter.dom0() else {
        return Ok(found);
    };
    let firsts: Vec<PageFrame> = dom0.source().sections().collect();
    let cursor = WorkCursor::new(firsts.len() as u64);
    let results = run(job.helpers, job.stop, |_| -> Result<_, DumpError> {
        let mut reader = dom0.source().reader(job.options.io);
        let mut sum = SectionResult::default();
        while let Some(index) = cursor.take(job.stop) {
            let section = job
                .filter
                .scan_dom0_section(reader.as_mut(), firsts[index as usize])
                .map_err(|source| job.filter_error(source))?;
            sum.scanned += section.scanned;
            sum.unreadable += section.unreadable;
            sum.excluded.add(&section.excluded);
        }
        Ok(sum)
    })?;
    job.check_interrupted()?;
    for sum in results {
        found.scanned += sum.scanned;
        found.unreadable += sum.unreadable;
        found.excluded.add(&sum.excluded);
    }
    Ok(found)
}

/// Clears the bits of zero pages in the section that begins with `first`; returns their number.
pub fn drop_zero_pages(
    job: &DumpJob,
    reader: &mut dyn PageReader,
    first: PageFrame,
    kept: &mut Bitmap,
) -> Result<u64, DumpError> {
    let page_size = job.page_size();
    let mut zero = Vec::new();
    let next = |from| kept.next_run(from, kept.len(), ZERO_SCAN_PAGES);
    read_pages(reader, page_size, first, 0, next, |frame, pages| {
        // An unreadable page is kept, so that it counts as lost.
        for (index, page) in pages
            .unwrap_or_default()
            .chunks_exact(page_size)
            .enumerate()
        {
            if is_zero(page) {
                zero.push((frame.0 - first.0) as u16 + index as u16);
            }
        }
        Ok(())
    })?;
    let cleared = zero.into_iter().map(usize::from);
    Ok(cleared.map(|bit| kept.clear_range(bit, bit + 1)).sum())
}
