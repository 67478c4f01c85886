//! Dumps from beginning to end: the output is opened, written, and named or left.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use bigiron_format::device::ContentsKind;
use bigiron_helpers::Stop;
use bigiron_kernel::{Filter, Kernel};

use crate::error::DumpError;
use crate::options::{DumpOptions, OutputFormat, OutputTarget, PageCompression};
use crate::output::{
    DeviceOutput, DiscardedOutput, FileOutput, FlattenedOutput, Output, PlainStream, Sink, keep,
};
use crate::progress::{Phase, Progress};
use crate::summary::{Summary, peak_memory};
use crate::task::{Task, Written, with_output};
use crate::{device, elf, kdump, vmdump};

/// Makes a dump of `kernel`'s memory.
pub fn dump(
    kernel: &Kernel,
    target: &OutputTarget,
    options: &DumpOptions,
    progress: &Progress,
    stop: &Stop,
) -> Result<Summary, DumpError> {
    let name = match target {
        OutputTarget::File(path) | OutputTarget::Device(path) => path.clone(),
        OutputTarget::Stdout => PathBuf::from("(standard output)"),
        OutputTarget::Nowhere => PathBuf::from("(nowhere)"),
    };
    let task = Task::new(kernel, options, progress, stop, name, 1);
    let (filter, mut summary) = prepare(&task)?;
    // A stream cannot be written to out of order, a file can.
    match (options.format, target) {
        (
            OutputFormat::Kdump | OutputFormat::Elf | OutputFormat::Vmdump,
            OutputTarget::File(path),
        ) if options.encrypt.is_none() => {
            let output = FileOutput::create(path, options.overwrite)?;
            write(&task, &filter, &output, Some(&output), &mut summary)?;
        }
        (format, OutputTarget::Device(path)) => {
            let output = begin_device(&task, format, path)?;
            let replaced = output.replaces().map(ToOwned::to_owned);
            summary.warnings.extend(replaced);
            if options.encrypt.is_some() {
                write_stream(&task, &filter, Sink::device(output), &mut summary)?;
                finish_summary(&task, &mut summary);
                return Ok(summary);
            }
            let contents = Some(output.contents());
            write(&task, &filter, &output, contents, &mut summary)?;
        }
        (_, OutputTarget::Nowhere) => {
            write(&task, &filter, &DiscardedOutput, None, &mut summary)?;
        }
        _ => write_stream(&task, &filter, open_sink(&task, target)?, &mut summary)?,
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
    let name = paths.first().cloned().unwrap_or_default();
    let task = Task::new(kernel, options, progress, stop, name, paths.len());
    let (filter, mut summary) = prepare(&task)?;
    kdump::write_split(&task, &filter, paths, granule, &mut summary)?;
    finish_summary(&task, &mut summary);
    Ok(summary)
}

/// Makes a striped vmdump of `kernel`'s memory: its chunks go in turn to `targets`,
/// files or raw dump devices, which all are written at the same time.
///
/// What an interrupted or failed one has written stays under temporary names.
pub fn dump_striped(
    kernel: &Kernel,
    targets: &[OutputTarget],
    options: &DumpOptions,
    progress: &Progress,
    stop: &Stop,
) -> Result<Summary, DumpError> {
    let paths = vmdump::check_targets(targets, options)?;
    let name = paths.first().cloned().unwrap_or_default();
    let task = Task::new(kernel, options, progress, stop, name, paths.len());
    let (filter, mut summary) = prepare(&task)?;
    let parts = open_stripes(&task, targets, &mut summary)?;
    vmdump::write_striped(&task, &filter, parts, &mut summary)?;
    finish_summary(&task, &mut summary);
    Ok(summary)
}

/// Opens the parts of a striped dump: all or none of them.
fn open_stripes(
    task: &Task,
    targets: &[OutputTarget],
    summary: &mut Summary,
) -> Result<Vec<vmdump::Stripe>, DumpError> {
    for target in targets {
        if let OutputTarget::Device(path) = target {
            DeviceOutput::check(path, task.options.overwrite_device)?;
        }
    }
    let queued = vmdump::queued(task.options, targets.len());
    let mut parts: Vec<vmdump::Stripe> = Vec::with_capacity(targets.len());
    for target in targets {
        match open_stripe(task, target, summary) {
            Ok((path, output)) => parts.push(vmdump::Stripe::new(path, output, queued)),
            Err(error) => {
                parts.iter().for_each(vmdump::Stripe::discard);
                return Err(error);
            }
        }
    }
    Ok(parts)
}

fn open_stripe<'t>(
    task: &Task,
    target: &'t OutputTarget,
    summary: &mut Summary,
) -> Result<(&'t Path, Box<dyn Output>), DumpError> {
    let path = target.path().unwrap_or(Path::new(""));
    let output: Box<dyn Output> = match target {
        OutputTarget::Device(path) => {
            let output = begin_device(task, OutputFormat::Vmdump, path)?;
            let replaced = output.replaces().map(ToOwned::to_owned);
            summary.warnings.extend(replaced);
            match task.options.encrypt {
                Some(_) => Box::new(PlainStream::begin(encrypted(task, Sink::device(output))?)),
                None => Box::new(output),
            }
        }
        _ if task.options.encrypt.is_some() => {
            let task = task.for_part(path, task.helpers);
            let sink = open_sink(&task, target)?;
            Box::new(PlainStream::begin(encrypted(&task, sink)?))
        }
        _ => Box::new(FileOutput::create(path, task.options.overwrite)?),
    };
    Ok((path, output))
}

/// The filter, and what can be said before it works.
fn prepare<'a, 's>(task: &Task<'a, 's>) -> Result<(Filter<'a, 's>, Summary), DumpError> {
    let options = task.options;
    check_compression(options)?;
    let mut filter = Filter::new(task.kernel, options.level).map_err(|e| task.filter_error(e))?;
    if !options.optimizations.scan_blocks {
        filter.exact_only();
    }
    if options.format.is_kdump() {
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

/// Not every format can have every compression.
fn check_compression(options: &DumpOptions) -> Result<(), DumpError> {
    let compression = options.compression;
    let refused = match options.format {
        OutputFormat::Kdump | OutputFormat::Flattened => compression == PageCompression::Bzip2,
        OutputFormat::Vmdump => vmdump::packing(options).is_none(),
        OutputFormat::Elf | OutputFormat::FlattenedElf => false,
    };
    if !refused {
        return Ok(());
    }
    let takes = match options.format {
        OutputFormat::Vmdump => "zstd or bzip2",
        _ => "none, zlib, lzo, snappy, zstd or adaptive",
    };
    Err(DumpError::Layout(format!(
        "-f {} cannot be compressed by {compression}; it takes -c {takes}",
        options.format.name()
    )))
}

fn finish_summary(task: &Task, summary: &mut Summary) {
    summary.bytes_out = task.progress.written();
    summary.cache = task.kernel.memory().statistics();
    summary.peak_memory = peak_memory();
}

/// Writes the dump in order to `sink`, encrypted if that is asked for.
fn write_stream<'s>(
    task: &Task<'_, 's>,
    filter: &Filter<'_, 's>,
    sink: Sink,
    summary: &mut Summary,
) -> Result<(), DumpError> {
    let sink = encrypted(task, sink)?;
    match task.options.format {
        OutputFormat::Elf | OutputFormat::Vmdump => {
            write(task, filter, &PlainStream::begin(sink), None, summary)
        }
        OutputFormat::Kdump | OutputFormat::Flattened | OutputFormat::FlattenedElf => {
            let output = FlattenedOutput::begin(sink).map_err(|e| task.write_error(e))?;
            write(task, filter, &output, None, summary)
        }
    }
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
            } else if task.options.format == OutputFormat::Vmdump {
                vmdump::write(task, filter, output, summary)
            } else {
                let readable = file.filter(|file| file.is_readable());
                kdump::write(task, filter, output, readable, summary)
            }
        })
    });
    ending(task, output, result)
}

/// Makes a dump of `kernel`'s memory in a file that is the caller's, as is what
/// becomes of it when that fails.
pub fn dump_to_file(
    kernel: &Kernel,
    file: &FileOutput,
    options: &DumpOptions,
    progress: &Progress,
    stop: &Stop,
) -> Result<Summary, DumpError> {
    let name = file.kept().unwrap_or_default();
    let task = Task::new(kernel, options, progress, stop, name, 1);
    let (filter, mut summary) = prepare(&task)?;
    write(&task, &filter, file, Some(file), &mut summary)?;
    finish_summary(&task, &mut summary);
    Ok(summary)
}

/// Takes a raw dump device.
fn begin_device(task: &Task, format: OutputFormat, path: &Path) -> Result<DeviceOutput, DumpError> {
    let kind = match format {
        OutputFormat::Kdump | OutputFormat::Elf | OutputFormat::Vmdump
            if task.options.encrypt.is_some() =>
        {
            ContentsKind::Encrypted
        }
        OutputFormat::Kdump => ContentsKind::Kdump,
        OutputFormat::Elf => ContentsKind::Elf,
        OutputFormat::Vmdump => ContentsKind::Vmdump,
        OutputFormat::Flattened | OutputFormat::FlattenedElf => {
            let reason =
                "the flattened format is for pipes; a dump device takes -f kdump, vmdump or elf";
            return Err(device::refused(path, reason));
        }
    };
    let claimed = task.options.overwrite_device;
    DeviceOutput::begin(path, kind, task.kernel.utsname(), claimed)
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
            kept: kept(output),
        }),
        Err(DumpError::Interrupted { .. }) => Err(DumpError::Interrupted { kept: kept(output) }),
        Err(error) => {
            output.discard();
            Err(error)
        }
    }
}

/// What is left, after the device was told how much that is.
fn kept(output: &dyn Output) -> Option<PathBuf> {
    if output.is_stream() {
        // The error that led here is the one to report.
        let _ = output.sync();
    }
    output.kept()
}

/// A stream into a file or to standard output.
fn open_sink(task: &Task, target: &OutputTarget) -> Result<Sink, DumpError> {
    match target.path() {
        Some(path) => {
            let file = FileOutput::create(path, task.options.overwrite)?;
            Ok(Sink::file(file))
        }
        None => {
            let stdout = io::stdout().as_fd().try_clone_to_owned();
            let stdout = stdout.map_err(|source| DumpError::Output {
                path: PathBuf::from("(standard output)"),
                action: "use it",
                source,
                hint: "",
            })?;
            Ok(Sink::stdout(File::from(stdout)))
        }
    }
}

fn encrypted(task: &Task, sink: Sink) -> Result<Sink, DumpError> {
    match &task.options.encrypt {
        Some(recipients) => sink
            .encrypted(recipients)
            .map_err(|error| task.write_error(error)),
        None => Ok(sink),
    }
}
