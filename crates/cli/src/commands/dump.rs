//! `bigiron dump`.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bigiron_dump::{DumpOptions, DumpOutput, Format, OutputTarget, Subject};
use bigiron_helpers::Stop;
use bigiron_kernel::xen::Given;
use bigiron_kernel::{DumpLevel, Kernel};

use crate::arguments::{DumpArguments, DumpOptionArgs};
use crate::attempts::{Attempts, NamedOutput};
use crate::memory_limit;
#[cfg(feature = "objects")]
use crate::objects;
use crate::tell::tell;
use crate::{bus_error, domain, online_cpus, report_first, rules, source, subject, summary};
use crate::{signals, timeout, vmlinux};

/// The memory of the crashed kernel, in its capture kernel.
const VMCORE: &str = "/proc/vmcore";

/// Makes a dump and prints the summary.
pub fn run(arguments: &DumpArguments) -> anyhow::Result<()> {
    let (paths, outputs) = arguments.split_paths();
    make(paths, outputs, &arguments.how, Some(arguments))
}

/// Dumps the sources `paths` to the output or all its parts, and prints the summary. The options
/// in `more` may ask for a report before, and for the production kernel after that.
pub fn make(
    paths: &[PathBuf],
    outputs: &[PathBuf],
    arguments: &DumpOptionArgs,
    more: Option<&DumpArguments>,
) -> anyhow::Result<()> {
    let output = outputs.first().context("there is no output")?;
    let to_stdout = output.as_os_str() == "-";
    let mut targets = vec![NamedOutput::new(
        dump_output(paths, outputs, arguments, arguments.device)?,
        outputs,
    )];
    if let Some(then) = &arguments.then {
        let then = std::slice::from_ref(then);
        targets.push(NamedOutput::new(
            dump_output(paths, then, arguments, false)?,
            then,
        ));
    }
    let directory = match output.parent() {
        _ if to_stdout || is_object(output) => std::env::temp_dir(),
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => Path::new(".").to_owned(),
    };
    memory_limit::limit_opening(arguments.memory_limit);
    arguments.time.begin(paths)?;
    let identity = arguments.source.identity.as_deref();
    let files = source::Files::open(paths, &directory, identity)?;
    let map = arguments.source.memory_map.as_deref();
    let opened = files.with_memory_map(map)?.parse()?;
    let cache_pages = arguments.source.cache_pages as usize;
    let opened = Arc::new(domain::enter(
        opened,
        arguments.source.domain,
        Given::default(),
        arguments.source.io.into(),
        cache_pages,
    )?);
    let given = arguments
        .source
        .vmcoreinfo
        .as_deref()
        .map(source::read_vmcoreinfo)
        .transpose()?;
    // Before the number of CPUs is queried.
    online_cpus::bring_up(
        arguments.online_cpus,
        paths,
        arguments.threads,
        arguments.quiet,
    );
    let options = DumpOptions {
        source_is_here: paths.iter().any(|path| path == Path::new(VMCORE)),
        ..arguments.options()
    };
    memory_limit::opened(options.memory);
    bus_error::explain(opened.path(), options.io)?;
    let known = subject::Knowledge {
        host: Given::default(),
        kernel: given.clone(),
        cache_pages,
    };
    let dom0 = subject::dom0(&opened, &known, &options);
    let found = Kernel::find(&opened, given, options.io, cache_pages);
    let mut subject = match &arguments.erase.erase {
        Some(config) => {
            let mut kernel =
                found.map_err(|error| source::name_error(error.into(), opened.path()))?;
            erase(&mut kernel, config, arguments.erase.debuginfo.as_deref())?;
            Subject::from(kernel)
        }
        None => subject::find(&opened, &dom0, found, known, &options)
            .map_err(|error| source::name_error(error.into(), opened.path()))?,
    };
    if let Some(more) = more {
        if more.report.report_only {
            return report_first::write(subject.kernel(), output, arguments.overwrite);
        }
        more.report.precede(subject.kernel(), arguments.overwrite);
    }
    if let Some(rules) = &arguments.rules {
        rules::apply(rules, &mut subject);
    }
    let mut levels = arguments.levels();
    if levels.is_empty() {
        levels.push(if subject.host().is_some() && subject.dom0().is_none() {
            DumpLevel::MAX_OF_HOST
        } else {
            DumpLevel::MAX
        });
    }
    if let Some(damage) = opened.damage() {
        let name = opened.path().display().to_string();
        if damage.contains(&name) {
            tell!("bigiron: warning: {damage}");
        } else {
            tell!("bigiron: warning: {name}: {damage}");
        }
    }
    if let Some(warning) = opened.memory().warning() {
        tell!("bigiron: warning: {}: {warning}", opened.path().display());
    }
    source::warn_of_notes(&opened, subject.kernel());
    let without_note = |kernel: &Kernel| kernel.found_in_memory() && kernel.note_damage().is_none();
    if subject.kernel().is_some_and(without_note) && !arguments.quiet {
        tell!("bigiron: VMCOREINFO is not in a note; found it in memory");
    }
    let target = &targets[0].output;
    let why_stream = match (to_stdout, target.is_encrypted()) {
        (true, _) => Some("standard output is a stream"),
        (false, _) if is_object(output) => Some("an object is written as a stream"),
        (false, true) => Some("encrypted output is a stream"),
        (false, false) => None,
    };
    if let Some(why) = why_stream
        && matches!(
            target.format(),
            Format::Kdump {
                flattened: false,
                ..
            }
        )
        && !arguments.quiet
    {
        tell!("bigiron: writing the flattened format, since {why}");
    }

    // Up to here a signal may kill the program: nothing has been written.
    let stop = Stop::new();
    signals::watch(&stop)?;
    timeout::stop_with(&stop);
    let attempts = Attempts {
        subject: &subject,
        source: opened.path().display().to_string(),
        levels,
        options,
        stall_warning: Duration::from_secs(arguments.stall_warning.get()),
        quiet: arguments.quiet,
        stop: &stop,
    };
    let made = attempts
        .make(&targets)
        .map_err(|error| source::name_error(error.into(), opened.path()))?;
    let summary = &made.summary;
    for warning in &summary.warnings {
        tell!("bigiron: warning: {warning}");
    }
    let report = summary::DumpReport::new(&opened, &subject, made.output, &made.options, summary);
    if arguments.json {
        summary::print_report(&report.json()?, to_stdout);
    } else if !arguments.quiet {
        summary::print_report(&report.text(arguments.stats), to_stdout);
    }
    if let Some(more) = more {
        more.boot.boot(subject.kernel());
    }
    Ok(())
}

/// Returns the output that the arguments describe; with `device`, a file is a dump device too.
fn dump_output(
    sources: &[PathBuf],
    outputs: &[PathBuf],
    arguments: &DumpOptionArgs,
    device: bool,
) -> anyhow::Result<DumpOutput> {
    let (compression, chunk_bytes) = (arguments.compress, arguments.chunk_size);
    if let (Some(object), [_, _, ..]) = (outputs.iter().find(|path| is_object(path)), outputs) {
        anyhow::bail!(
            "{}: is an object; --split and --stripe write files and devices",
            object.display()
        );
    }
    if !arguments.stripe.is_empty() {
        let targets = outputs
            .iter()
            .map(|part| one(sources, part, device, arguments.overwrite));
        return Ok(DumpOutput::Striped {
            chunks: compression
                .of_chunks(chunk_bytes)
                .map_err(anyhow::Error::msg)?,
            targets: targets.collect::<anyhow::Result<_>>()?,
            recipients: arguments.recipients()?,
        });
    }
    let [output] = outputs else {
        if let Some(device) = outputs.iter().find(|output| is_block_device(output)) {
            anyhow::bail!(
                "{}: is a disk or partition; --split requires files",
                device.display()
            );
        }
        return Ok(DumpOutput::Split {
            compression: compression.of_pages().map_err(anyhow::Error::msg)?,
            granule: 1,
            files: outputs.to_vec(),
        });
    };
    let format = compression.of_format(arguments.format_in(outputs), chunk_bytes);
    Ok(DumpOutput::Whole {
        format: format.map_err(anyhow::Error::msg)?,
        target: one(sources, output, device, arguments.overwrite)?,
        recipients: arguments.recipients()?,
    })
}

fn one(
    sources: &[PathBuf],
    output: &Path,
    device: bool,
    overwrite: bool,
) -> anyhow::Result<OutputTarget> {
    #[cfg(feature = "objects")]
    if is_object(output) {
        anyhow::ensure!(!device, "{}: is an object, and no device", output.display());
        return Ok(OutputTarget::Taker(objects::taker(output, overwrite)?));
    }
    let _ = overwrite;
    Ok(if output.as_os_str() == "-" {
        OutputTarget::Stdout
    } else if device || is_block_device(output) || is_missing_device(output) {
        check_is_no_source(sources, output)?;
        OutputTarget::Device(output.to_owned())
    } else {
        OutputTarget::File(output.to_owned())
    })
}

/// True for the name of an object; the capture build knows none.
fn is_object(path: &Path) -> bool {
    #[cfg(feature = "objects")]
    return objects::is_object(path);
    #[cfg(not(feature = "objects"))]
    {
        let _ = path;
        false
    }
}

fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// True for a name in /dev without a device: a file there would be in memory, and gone after the
/// reboot.
fn is_missing_device(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm") && fs::metadata(path).is_err()
}

/// Returns an error if `output` is a source. A file may replace its own source, since it is
/// made under a temporary name; a device has no other name.
fn check_is_no_source(sources: &[PathBuf], output: &Path) -> anyhow::Result<()> {
    let identity = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        let is_device = metadata.file_type().is_block_device();
        let device = if is_device {
            metadata.rdev()
        } else {
            metadata.dev()
        };
        Some((device, if is_device { 0 } else { metadata.ino() }))
    };
    let own = identity(output);
    anyhow::ensure!(
        own.is_none() || sources.iter().all(|source| identity(source) != own),
        "{}: is the source; write the dump to another device or to a file",
        output.display()
    );
    Ok(())
}

/// Erases the data named by the commands in `config`; if any of it cannot be erased, no dump is
/// made.
fn erase(kernel: &mut Kernel, config: &Path, vmlinux: Option<&Path>) -> anyhow::Result<()> {
    anyhow::ensure!(
        !kernel.source().is_live(),
        "{}: data cannot be erased reliably from a running kernel; dump it first, then dump that dump \
         with --erase",
        config.display()
    );
    if let Some(path) = vmlinux {
        let is_kernel = vmlinux::is_of(path, kernel.info())
            .with_context(|| format!("{}: cannot read it as vmlinux", path.display()))?;
        anyhow::ensure!(is_kernel, vmlinux::mismatch(path, kernel.info()));
    }
    let commands = crate::erase::read(config)
        .with_context(|| format!("{}: cannot read the erase commands", config.display()))?;
    let erasure = crate::erase::find(kernel, &commands, vmlinux)?;
    let problems: Vec<_> = erasure.problems.iter().map(ToString::to_string).collect();
    anyhow::ensure!(
        problems.is_empty(),
        "{}: some of the data cannot be erased, so no dump is made:\n{}",
        config.display(),
        problems.join("\n")
    );
    kernel.erase(erasure);
    Ok(())
}
