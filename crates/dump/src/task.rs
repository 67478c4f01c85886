//! One dump from beginning to end.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bigiron_helpers::Stop;
use bigiron_kernel::{Filter, IoMethod, Kernel, KernelError, zones};

use crate::error::DumpError;
use crate::options::{DumpOptions, OutputFormat, OutputTarget, PageCompression};
use crate::output::{
    DiscardedOutput, FileOutput, FlattenedOutput, LimitedOutput, Output, PacedOutput, PlainStream,
    Sink, WatchedOutput, keep,
};
use crate::plan::Plan;
use crate::progress::{Phase, Progress};
use crate::summary::{PhaseTime, Summary, peak_memory};
use crate::{elf, kdump};

/// Memory that all helpers share: the table of shared pages and the plan.
const SHARED_BYTES: u64 = 4 << 20;
/// A helper's buffers beside its codec's: a unit of pages and its data, what it
/// reads at once, and its stack. Each further helper was seen to take half.
const HELPER_BYTES: u64 = 2 << 20;
/// What a mapped window of a file takes on top. One of /proc/vmcore takes
/// nothing: it shows memory that is there anyway.
const MAPPED_BYTES: u64 = 4 << 20;
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

/// Makes a dump of `kernel`'s memory.
pub fn dump(
    kernel: &Kernel,
    target: &OutputTarget,
    options: &DumpOptions,
    progress: &Progress,
    stop: &Stop,
) -> Result<Summary, DumpError> {
    let (shared, per_helper) = memory_needed(options);
    let task = Task {
        kernel,
        options,
        progress,
        stop,
        helpers: options.memory.helpers(options.threads, shared, per_helper),
        target: match target {
            OutputTarget::File(path) => path.clone(),
            OutputTarget::Stdout => PathBuf::from("(standard output)"),
            OutputTarget::Nowhere => PathBuf::from("(nowhere)"),
        },
    };
    let (filter, mut summary) = prepare(&task)?;
    // A stream cannot be written to out of order, a file can.
    match (options.format, target) {
        (OutputFormat::Kdump | OutputFormat::Elf, OutputTarget::File(path)) => {
            let output = FileOutput::create(path, options.overwrite)?;
            write(&task, &filter, &output, Some(&output), &mut summary)?;
        }
        (_, OutputTarget::Nowhere) => {
            write(&task, &filter, &DiscardedOutput, None, &mut summary)?;
        }
        (OutputFormat::Elf, OutputTarget::Stdout) => {
            let output = PlainStream::begin(open_sink(None, options.overwrite)?);
            write(&task, &filter, &output, None, &mut summary)?;
        }
        (OutputFormat::Flattened | OutputFormat::FlattenedElf, _)
        | (OutputFormat::Kdump, OutputTarget::Stdout) => {
            let sink = open_sink(target.path(), options.overwrite)?;
            let output = FlattenedOutput::begin(sink).map_err(|e| task.write_error(e))?;
            write(&task, &filter, &output, None, &mut summary)?;
        }
    }
    finish_summary(&task, &mut summary);
    Ok(summary)
}

/// Makes a dump of `kernel`'s memory that is split into a kdump-compressed file
/// for each of `paths`, with about as many pages each, and all written at the
/// same time. Parts begin at multiples of `granule` page frames.
///
/// What an interrupted or failed one has written stays under temporary names.
pub fn dump_split(
    kernel: &Kernel,
    paths: &[PathBuf],
    granule: u64,
    options: &DumpOptions,
    progress: &Progress,
    stop: &Stop,
) -> Result<Summary, DumpError> {
    let (shared, per_helper) = memory_needed(options);
    // Each part has a table of shared pages of its own.
    let shared = shared.saturating_mul(paths.len() as u64);
    let task = Task {
        kernel,
        options,
        progress,
        stop,
        helpers: options.memory.helpers(options.threads, shared, per_helper),
        target: paths.first().cloned().unwrap_or_default(),
    };
    let (filter, mut summary) = prepare(&task)?;
    kdump::write_split(&task, &filter, paths, granule, &mut summary)?;
    finish_summary(&task, &mut summary);
    Ok(summary)
}

/// The filter, and what can be said before it works.
fn prepare<'a, 's>(task: &Task<'a, 's>) -> Result<(Filter<'a, 's>, Summary), DumpError> {
    let options = task.options;
    let mut filter = Filter::new(task.kernel, options.level).map_err(|e| task.filter_error(e))?;
    if !options.optimizations.scan_blocks {
        filter.exact_only();
    }
    if !options.format.is_elf() {
        filter.end_at_mem_map().map_err(|e| task.filter_error(e))?;
    }
    let mut summary = Summary {
        page_size: task.page_size() as u64,
        end_frame: filter.end_frame(),
        helpers: task.helpers,
        zero_excluded: options.level.excludes_zero(),
        ..Summary::default()
    };
    if task.helpers < options.threads {
        summary.warnings.push(format!(
            "{} helpers instead of {}: more do not fit into the memory limit",
            task.helpers, options.threads
        ));
    }

    if let Some(error) = filter.blind() {
        summary
            .warnings
            .push(format!("cannot tell poisoned pages from others: {error}"));
    }
    Ok((filter, summary))
}

fn finish_summary(task: &Task, summary: &mut Summary) {
    summary.bytes_out = task.progress.written();
    summary.cache = task.kernel.memory().statistics();
    summary.peak_memory = peak_memory();
}

/// Writes the dump to `output`, which is `file` if it is one.
fn write<'s>(
    task: &Task<'_, 's>,
    filter: &Filter<'_, 's>,
    output: &dyn Output,
    file: Option<&FileOutput>,
    summary: &mut Summary,
) -> Result<(), DumpError> {
    let result = with_output(task, output, |output| {
        let error = |error| task.write_error(error);
        keep(output, task.progress, task.stop, error, || {
            if task.options.format.is_elf() {
                elf::write(task, filter, output, file, summary)
            } else {
                let readable = file.filter(|file| file.is_readable());
                kdump::write(task, filter, output, readable, summary)
            }
        })
    });
    ending(task, output, result)
}

/// Memory that all helpers share, and that each takes.
fn memory_needed(options: &DumpOptions) -> (u64, u64) {
    let mapped = if options.io == IoMethod::Mmap {
        MAPPED_BYTES
    } else {
        0
    };
    let contexts = match options.compression {
        PageCompression::Fixed(fixed) => fixed.context_bytes() as u64,
        PageCompression::Adaptive => kdump::adaptive_context_bytes(),
    };
    let queued = if writes_behind(options) || options.format == OutputFormat::Flattened {
        kdump::queue_bytes(options.threads)
    } else {
        0
    };
    (SHARED_BYTES + queued, HELPER_BYTES + mapped + contexts)
}

fn writes_behind(options: &DumpOptions) -> bool {
    !options.format.is_elf()
        && (options.compression == PageCompression::Adaptive || options.write_limit.is_some())
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

/// Keeps or discards what a failed dump wrote, and says so in the error. As
/// long as the filter works there is no page in it yet.
fn ending(
    task: &Task,
    output: &dyn Output,
    result: Result<Written, DumpError>,
) -> Result<(), DumpError> {
    match result {
        Err(error) if matches!(task.progress.phase(), Phase::Opening | Phase::Filtering) => {
            output.discard();
            Err(error)
        }
        Ok(Written) => Ok(()),
        Err(error) if task.options.discard_if_full && error.is_output_full() => {
            output.discard();
            Err(error)
        }
        Err(DumpError::Write { path, source, .. }) => Err(DumpError::Write {
            path,
            source,
            kept: output.kept(),
        }),
        Err(DumpError::Interrupted { .. }) => Err(DumpError::Interrupted {
            kept: output.kept(),
        }),
        Err(error) => {
            output.discard();
            Err(error)
        }
    }
}

/// All of the output was written and has its name.
pub struct Written;

/// A stream into the file at `path`, or to standard output.
fn open_sink(path: Option<&Path>, overwrite: bool) -> Result<Sink, DumpError> {
    match path {
        Some(path) => Ok(Sink::File(FileOutput::create(path, overwrite)?)),
        None => {
            let stdout = io::stdout().as_fd().try_clone_to_owned();
            let stdout = stdout.map_err(|source| DumpError::Output {
                path: PathBuf::from("(standard output)"),
                action: "use it",
                source,
                hint: "",
            })?;
            Ok(Sink::Stdout(File::from(stdout)))
        }
    }
}

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
    if !task.options.level.excludes_free() || !whole {
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
