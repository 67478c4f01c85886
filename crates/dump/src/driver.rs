//! The phases of every dump: filter, copy, finish, and what remains of a dump that fails.

use std::time::Instant;

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_kernel::{GuardedCounts, zones};

use crate::bitmaps::BitmapStore;
use crate::error::DumpError;
use crate::job::DumpJob;
use crate::kept_pages::KeptPages;
use crate::output::{Part, keep};
use crate::plan::{self, Plan};
use crate::progress::Phase;
use crate::sections::Sections;
use crate::summary::{PhaseTime, Summary};

/// Free pages may differ from the zones' counters by the pages that per-CPU lists hold and by
/// counter updates that are still pending.
const FREE_TOLERANCE: u64 = 1024;

/// The operations of a format in the phases of a dump, called in the order given here.
pub trait FormatWriter {
    /// The layout decided between filtering and copying.
    type Layout;

    /// Offset in each part at which the bitmap of kept pages is written while filtering, if it
    /// is.
    fn bitmap_offset(&self) -> Option<u64> {
        None
    }

    /// Maximum memory for bitmaps that cannot be read back from a part.
    fn bitmap_memory(&self) -> u64 {
        u64::MAX
    }

    /// Prepares the parts before any page is filtered.
    fn begin_filter(&self, _sections: &Sections) -> Result<(), DumpError> {
        Ok(())
    }

    /// Takes a section's bitmaps of RAM and of kept pages; called by all helpers.
    fn take_bitmaps(&self, _: PageFrame, _ram: &Bitmap, _kept: &Bitmap) -> Result<(), DumpError> {
        Ok(())
    }

    /// Lays the dump out.
    fn lay_out(&self, kept: &KeptPages) -> Result<Self::Layout, DumpError>;

    /// Prepares the parts for pages. A dump that fails until here leaves nothing.
    fn begin_copy(&self, _kept: &KeptPages, _layout: &mut Self::Layout) -> Result<(), DumpError> {
        Ok(())
    }

    /// Page frames to copy.
    fn copy_total(&self, kept: &KeptPages, _layout: &Self::Layout) -> u64 {
        kept.plan.kept
    }

    /// Copies all pages.
    fn copy(
        &self,
        kept: &KeptPages,
        layout: &mut Self::Layout,
        summary: &mut Summary,
    ) -> Result<(), DumpError>;

    /// Writes what marks the parts as complete, or as incomplete.
    fn finish(
        &mut self,
        kept: &KeptPages,
        layout: Self::Layout,
        complete: bool,
        summary: &Summary,
    ) -> Result<(), DumpError>;
}

/// Makes a dump in `parts`. If it fails, each part is kept under its temporary name or discarded,
/// and the error says which.
pub fn write(
    job: &DumpJob,
    parts: &[Part],
    mut format: impl FormatWriter + Sync,
    summary: &mut Summary,
) -> Result<(), DumpError> {
    let mut phases = || run_phases(job, parts, &mut format, summary);
    keep_all(job, parts, &mut phases).map_err(|error| end_failed(job, parts, error))
}

/// Runs `work` while each part is synced regularly.
fn keep_all(
    job: &DumpJob,
    parts: &[Part],
    work: &mut dyn FnMut() -> Result<(), DumpError>,
) -> Result<(), DumpError> {
    let Some((part, others)) = parts.split_first() else {
        return work();
    };
    let (progress, stop) = (job.progress, job.stop);
    keep(
        || part.sync(),
        progress,
        stop,
        || keep_all(job, others, work),
    )
}

fn run_phases(
    job: &DumpJob,
    parts: &[Part],
    format: &mut (impl FormatWriter + Sync),
    summary: &mut Summary,
) -> Result<(), DumpError> {
    let begin = Instant::now();
    let sections = Sections::of(job.subject.source());
    let (offset, memory) = (format.bitmap_offset(), format.bitmap_memory());
    let store = BitmapStore::new(job, parts, offset, sections.len(), memory);
    format.begin_filter(&sections)?;
    let plan = plan::make(job, sections, &store, &|first, ram, kept| {
        format.take_bitmaps(first, ram, kept)
    })?;
    summarize_plan(job, &plan, summary);
    let kept = KeptPages { job, plan, store };
    let mut layout = format.lay_out(&kept)?;
    end_phase(summary, Phase::Filtering, begin);

    let begin = Instant::now();
    format.begin_copy(&kept, &mut layout)?;
    let total = format.copy_total(&kept, &layout);
    job.progress.begin(Phase::Copying, total);
    format.copy(&kept, &mut layout, summary)?;
    job.check_interrupted()?;
    end_phase(summary, Phase::Copying, begin);

    let begin = Instant::now();
    job.progress.begin(Phase::Finishing, 0);
    let complete = summary.lost == 0 && job.subject.damage().is_none();
    format.finish(&kept, layout, complete, summary)?;
    finish_parts(parts)?;
    end_phase(summary, Phase::Finishing, begin);
    Ok(())
}

/// Makes all parts durable and gives them their names: all of them or none.
fn finish_parts(parts: &[Part]) -> Result<(), DumpError> {
    if parts.len() > 1 {
        // No part gets its name before all of them are durable.
        parts.iter().try_for_each(Part::sync)?;
    }
    for (number, part) in parts.iter().enumerate() {
        part.finish().inspect_err(|_| {
            parts[..number].iter().for_each(Part::take_back);
        })?;
    }
    Ok(())
}

/// Keeps or discards what a failed dump wrote, and adds to the error what was kept.
fn end_failed(job: &DumpJob, parts: &[Part], error: DumpError) -> DumpError {
    // Until pages are copied, the parts hold none.
    let no_page = matches!(job.progress.phase(), Phase::Opening | Phase::Filtering);
    let full = job.options.discard_if_full && error.is_output_full();
    let usable = matches!(
        error,
        DumpError::Write { .. } | DumpError::Interrupted { .. }
    );
    if no_page || full || !usable {
        parts.iter().for_each(Part::discard);
        return error;
    }
    for part in parts.iter().filter(|part| part.is_stream()) {
        // Records on a device how much of the stream is there. `error` is the one to report.
        let _ = part.sync();
    }
    if job.options.names_incomplete {
        parts.iter().for_each(Part::name_incomplete);
    }
    let kept_of = |part: Option<&Part>| part.and_then(Part::kept);
    match error {
        DumpError::Write { path, cause, .. } => DumpError::Write {
            kept: kept_of(parts.iter().find(|part| part.path() == path)),
            path,
            cause,
        },
        DumpError::Interrupted { .. } => DumpError::Interrupted {
            kept: kept_of(parts.first()),
        },
        other => other,
    }
}

/// Copies the plan's counts to the summary, and compares the number of free pages with the
/// kernel's own: a filter that does not understand a new kernel must be noticed.
fn summarize_plan(job: &DumpJob, plan: &Plan, summary: &mut Summary) {
    summary.ram = plan.ram;
    summary.excluded = plan.excluded;
    summary.guarded = plan.guarded.iter().map(|(_, count)| count).sum();
    summary.kept_by_rules = plan.kept_by_rules;
    summary.blanked_by_rules = plan.blanked_by_rules;
    summary.warnings.extend(guarded_warning(&plan.guarded));
    summary.struct_pages = plan.scanned;
    summary.dumped = plan.kept;
    summary.zero = plan.zero;
    // Of page frames whose struct pages were left out, there is nothing to keep.
    if plan.unreadable > 0 && !job.subject.source().lacks_struct_pages() {
        summary.warnings.push(format!(
            "{} struct pages cannot be read; their pages are kept",
            plan.unreadable
        ));
    }
    if plan.undescribed > 0 {
        summary.warnings.push(format!(
            "the struct pages of {} page frames are not read, since the source has too few pages \
             to hold them; their pages are kept",
            plan.undescribed
        ));
    }
    if let Some(error) = job.subject.why_no_dom0()
        && job.options.owners.dom0
        && job.options.level.excludes_free()
    {
        summary.warnings.push(format!(
            "free memory of dom0 is kept, since its kernel is not found: {error}"
        ));
    }
    // The dump does not need the counters, so unreadable ones are no error.
    let of_kernel = |kernel| zones::free_pages(kernel).ok().flatten();
    let free = plan.excluded.free + plan.excluded.unaccepted;
    let mut counts = Vec::new();
    if let Some(kernel) = job.subject.kernel().filter(|_| kernel_counts_free(job)) {
        counts.push((free, of_kernel(kernel), "KERNEL", "kernel"));
    }
    if let Some(dom0) = job.filter.dom0().filter(|_| kernel_counts_free(job)) {
        counts.push((plan.dom0_free, of_kernel(dom0), "KERNEL OF DOM0", "kernel"));
    }
    if let Some(host) = job.subject.host().filter(|_| host_excludes_free(job)) {
        let counted = host.free_pages().ok().flatten();
        counts.push((plan.hypervisor_free, counted, "XEN", "hypervisor"));
    }
    for (found, counted, system, owner) in counts {
        let Some(counted) = counted else { continue };
        if found.abs_diff(counted) > FREE_TOLERANCE.max(plan.ram / 100) {
            summary.warnings.push(format!(
                "THE FILTER MAY BE WRONG FOR THIS {system}: it found {found} free pages, the \
                 {owner} itself counted {counted}; compare sizes, or dump with -d 1 to be safe"
            ));
        }
    }
}

/// Says what the filter would have excluded of the kernel's own memory.
fn guarded_warning(counts: &GuardedCounts) -> Option<String> {
    let wrong = counts.iter().filter(|(used, _)| used.contradicts_class());
    let parts = wrong.map(|(used, count)| format!("{} ({count})", used.name()));
    let parts: Vec<_> = parts.collect();
    (!parts.is_empty()).then(|| {
        format!(
            "struct pages call page frames of the kernel itself page cache, user memory or free; \
             they are kept: {}",
            parts.join(", ")
        )
    })
}

/// Returns true if the plan has all pages that the kernel counts as free. A running kernel's
/// counters and struct pages are read at different times.
fn kernel_counts_free(job: &DumpJob) -> bool {
    let source = job.subject.source();
    job.options.level.excludes_free() && source.dump_level() & 16 == 0 && !source.is_live()
}

/// Returns true if the hypervisor's free pages are excluded.
fn host_excludes_free(job: &DumpJob) -> bool {
    job.options.level.excludes_free() || !job.options.owners.others
}

fn end_phase(summary: &mut Summary, phase: Phase, begin: Instant) {
    summary.phases.push(PhaseTime {
        name: phase.name(),
        time: begin.elapsed(),
    });
}
