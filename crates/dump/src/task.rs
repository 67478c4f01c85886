//! One dump from beginning to end.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Instant;

use bigiron_helpers::Stop;
use bigiron_kernel::{Filter, IoMethod, Kernel, KernelError, zones};

use crate::error::DumpError;
use crate::options::{DumpOptions, OutputFormat, OutputTarget, PageCompression};
use crate::output::{FileOutput, FlattenedOutput, Output, PacedOutput, PlainStream, Sink};
use crate::plan::Plan;
use crate::progress::{Phase, Progress};
use crate::summary::{PhaseTime, Summary, peak_memory};
use crate::{elf, kdump};

/// Memory that all helpers share: the table of shared pages and the plan.
const SHARED_BYTES: u64 = 4 << 20;
/// A helper's windows and buffers beside its codec's.
const HELPER_BYTES: u64 = 4 << 20;
/// What mapped windows take on top.
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

impl Task<'_, '_> {
    /// Bytes of a page.
    pub fn page_size(&self) -> usize {
        1 << self.kernel.source().page_shift()
    }

    /// Whether zero pages are left out by the bitmap, as ELF needs it;
    /// kdump-compressed dumps keep their bits.
    pub fn drops_zero_pages(&self) -> bool {
        self.options.format == OutputFormat::Elf && self.options.level.excludes_zero()
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
        },
    };
    let mut filter = Filter::new(kernel, options.level).map_err(|e| task.filter_error(e))?;
    if !options.optimizations.scan_blocks {
        filter.exact_only();
    }
    if options.format != OutputFormat::Elf {
        filter.end_at_mem_map().map_err(|e| task.filter_error(e))?;
    }
    let mut summary = Summary {
        page_size: task.page_size() as u64,
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

    // A stream cannot be written to out of order, a file can.
    match (options.format, target) {
        (OutputFormat::Kdump | OutputFormat::Elf, OutputTarget::File(path)) => {
            let output = FileOutput::create(path, options.overwrite)?;
            write(&task, &filter, &output, Some(&output), &mut summary)?;
        }
        (OutputFormat::Kdump | OutputFormat::Flattened, _) => {
            let sink = open_sink(target, options.overwrite)?;
            let output = FlattenedOutput::begin(sink).map_err(|e| task.write_error(e))?;
            write(&task, &filter, &output, None, &mut summary)?;
        }
        (OutputFormat::Elf, OutputTarget::Stdout) => {
            let output = PlainStream::begin(open_sink(target, options.overwrite)?);
            write(&task, &filter, &output, None, &mut summary)?;
        }
    }
    summary.bytes_out = progress.written();
    summary.cache = kernel.memory().statistics();
    summary.peak_memory = peak_memory();
    Ok(summary)
}

/// Writes the dump to `output`, which is `file` if it is one.
fn write<'s>(
    task: &Task<'_, 's>,
    filter: &Filter<'_, 's>,
    output: &dyn Output,
    file: Option<&FileOutput>,
    summary: &mut Summary,
) -> Result<(), DumpError> {
    let paced;
    let limited: &dyn Output = match task.options.write_limit {
        Some(limit) => {
            paced = PacedOutput::new(output, limit, task.stop);
            &paced
        }
        None => output,
    };
    let result = if task.options.format == OutputFormat::Elf {
        elf::write(task, filter, limited, file, summary)
    } else {
        let readable = file.filter(|file| file.is_readable());
        kdump::write(task, filter, limited, readable, summary)
    };
    ending(task.progress, output, result)
}

/// Memory that all helpers share, and that each takes.
fn memory_needed(options: &DumpOptions) -> (u64, u64) {
    let mapped = if options.io == IoMethod::Read {
        0
    } else {
        MAPPED_BYTES
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
    options.format != OutputFormat::Elf
        && (options.compression == PageCompression::Adaptive || options.write_limit.is_some())
}

/// Keeps or discards what a failed dump wrote, and says so in the error. As
/// long as the filter works there is no page in it yet.
fn ending(
    progress: &Progress,
    output: &dyn Output,
    result: Result<Written, DumpError>,
) -> Result<(), DumpError> {
    match result {
        Err(error) if matches!(progress.phase(), Phase::Opening | Phase::Filtering) => {
            output.discard();
            Err(error)
        }
        Ok(Written) => Ok(()),
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

fn open_sink(target: &OutputTarget, overwrite: bool) -> Result<Sink, DumpError> {
    match target {
        OutputTarget::File(path) => Ok(Sink::File(FileOutput::create(path, overwrite)?)),
        OutputTarget::Stdout => {
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
