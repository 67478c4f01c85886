//! What everyone who works on a dump needs.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bigiron_helpers::Stop;
use bigiron_kernel::{Kernel, KernelError, zones};

use crate::error::DumpError;
use crate::needs::{memory_needed, writes_behind};
use crate::options::{DumpOptions, PageCompression};
use crate::output::{LimitedOutput, Output, PacedOutput, WatchedOutput};
use crate::plan::Plan;
use crate::progress::{Phase, Progress};
use crate::summary::{PhaseTime, Summary};

/// Free pages may differ from the zones' counters by the pages that CPUs hold
/// back and by what the counters have not been told yet.
const FREE_TOLERANCE: u64 = 1024;

/// What everyone who works on a dump needs.
pub struct Task<'a, 's> {
    pub kernel: &'a Kernel<'s>,
    pub options: &'a DumpOptions,
    pub progress: &'a Progress,
    pub stop: &'a Stop,
    pub helpers: usize,
    target: PathBuf,
}

impl<'a, 's> Task<'a, 's> {
    /// A dump to `target`, which is for messages, in as many files as `parts`,
    /// with as many helpers as are wanted and have room.
    pub fn new(
        kernel: &'a Kernel<'s>,
        options: &'a DumpOptions,
        progress: &'a Progress,
        stop: &'a Stop,
        target: PathBuf,
        parts: usize,
    ) -> Self {
        let (shared, per_helper) = memory_needed(options, parts);
        Self {
            kernel,
            options,
            progress,
            stop,
            helpers: options.memory.helpers(options.threads, shared, per_helper),
            target,
        }
    }

    /// The same for one part of a split dump.
    pub fn for_part(&self, path: &Path, helpers: usize) -> Task<'a, 's> {
        Task {
            helpers,
            target: path.to_owned(),
            ..*self
        }
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> usize {
        1 << self.kernel.source().page_shift()
    }

    /// Whether zero pages are left out by the bitmap, as ELF needs it;
    /// kdump-compressed dumps keep their bits.
    pub fn drops_zero_pages(&self) -> bool {
        self.options.format.is_elf() && self.options.level.excludes_zero()
    }

    pub fn filter_error(&self, source: KernelError) -> DumpError {
        DumpError::Filter {
            level: self.options.level.number(),
            source,
        }
    }

    pub fn write_error(&self, source: io::Error) -> DumpError {
        DumpError::Write {
            path: self.target.clone(),
            source,
            kept: None,
        }
    }

    /// Whether compression follows what the output can take.
    pub fn is_adaptive(&self) -> bool {
        self.options.compression == PageCompression::Adaptive
    }

    /// Whether a writer of its own stands between the helpers and `output`:
    /// where writing takes time that is not the processors'.
    pub fn writes_behind(&self, output: &dyn Output) -> bool {
        output.is_stream() || writes_behind(self.options)
    }

    /// An error if somebody asked to stop.
    pub fn check_interrupted(&self) -> Result<(), DumpError> {
        if self.stop.is_set() {
            Err(DumpError::Interrupted { kept: None })
        } else {
            Ok(())
        }
    }
}

/// Puts what the options ask for between a dump and its output, and lets `work`
/// write to that.
pub fn with_output<T>(task: &Task, output: &dyn Output, work: impl FnOnce(&dyn Output) -> T) -> T {
    let watched = WatchedOutput::new(output, task.progress);
    let (limited, paced);
    let mut outermost: &dyn Output = &watched;
    if let Some(limit) = task.options.size_limit {
        limited = LimitedOutput::new(outermost, limit);
        outermost = &limited;
    }
    if let Some(limit) = task.options.write_limit {
        paced = PacedOutput::new(outermost, limit, task.stop);
        outermost = &paced;
    }
    work(outermost)
}

/// All of the output was written and has its name.
pub struct Written;

/// Takes over what the plan found, and holds the free pages against the
/// kernel's own count: a filter that does not know a new kernel must not
/// stay unnoticed.
pub fn summarize_plan(task: &Task, plan: &Plan, summary: &mut Summary) {
    summary.ram = plan.ram;
    summary.excluded = plan.excluded;
    summary.struct_pages = plan.scanned;
    summary.dumped = plan.kept;
    summary.zero = plan.zero;
    if plan.unreadable > 0 {
        summary.warnings.push(format!(
            "{} struct pages cannot be read; their pages are kept",
            plan.unreadable
        ));
    }
    let whole = task.kernel.source().dump_level() & 16 == 0;
    // A running kernel's count is of another moment than its struct pages.
    let comparable = whole && !task.kernel.source().is_live();
    if !task.options.level.excludes_free() || !comparable {
        return;
    }
    let found = plan.excluded.free + plan.excluded.unaccepted;
    // What cannot be read cannot be compared; the dump itself does not need it.
    let Ok(Some(counted)) = zones::free_pages(task.kernel) else {
        return;
    };
    if found.abs_diff(counted) > FREE_TOLERANCE.max(plan.ram / 100) {
        summary.warnings.push(format!(
            "THE FILTER MAY BE WRONG FOR THIS KERNEL: it found {found} free pages, the kernel \
             itself counted {counted}; compare sizes, or dump with -d 1 to be safe"
        ));
    }
}

/// Notes how long a phase took.
pub fn end_phase(summary: &mut Summary, phase: Phase, begin: Instant) {
    summary.phases.push(PhaseTime {
        name: phase.name(),
        time: begin.elapsed(),
    });
}
