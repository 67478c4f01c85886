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
            let contents = Some(output.contents());
            write(&task, &filter, &output, contents, &mut summary)?;
        }
        (_, OutputTarget::Nowhere) => {
            write(&task, &filter, &DiscardedOutput, None, &mut summary)?;
        }
        (OutputFormat::Elf | OutputFormat::Vmdump, _) => {
            let output = PlainStream::begin(open_sink(&task, target)?);
            write(&task, &filter, &output, None, &mut summary)?;
        }
        (OutputFormat::Kdump | OutputFormat::Flattened | OutputFormat::FlattenedElf, _) => {
            let sink = open_sink(&task, target)?;
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
    let name = paths.first().cloned().unwrap_or_default();
    let task = Task::new(kernel, options, progress, stop, name, paths.len());
    let (filter, mut summary) = prepare(&task)?;
    kdump::write_split(&task, &filter, paths, granule, &mut summary)?;
    finish_summary(&task, &mut summary);
    Ok(summary)
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
    if task.options.encrypt.is_some() {
        let reason = "what is on a dump device cannot be encrypted; dump to a file or a pipe";
        return Err(device::refused(path, reason));
    }
    let kind = match format {
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

/// A stream into a file or to standard output, encrypted if that is asked for.
fn open_sink(task: &Task, target: &OutputTarget) -> Result<Sink, DumpError> {
    let sink = match target.path() {
        Some(path) => Sink::file(FileOutput::create(path, task.options.overwrite)?),
        None => {
            let stdout = io::stdout().as_fd().try_clone_to_owned();
            let stdout = stdout.map_err(|source| DumpError::Output {
                path: PathBuf::from("(standard output)"),
                action: "use it",
                source,
                hint: "",
            })?;
            Sink::stdout(File::from(stdout))
        }
    };
    match &task.options.encrypt {
        Some(recipients) => sink
            .encrypted(recipients)
            .map_err(|error| task.write_error(error)),
        None => Ok(sink),
    }
}
