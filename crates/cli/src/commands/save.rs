//! `bigiron save`: copies a dump from a device or a file into a directory.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bigiron_dump::{DumpError, Progress, Save, SaveOptions, Saved, peak_memory};
use bigiron_helpers::{MemoryBudget, Stop};
use clap::Args;

use super::dmesg;
#[cfg(feature = "retention")]
use super::retention::RetentionArguments;
use super::save_outcome::Outcome;
#[cfg(feature = "objects")]
use super::uploads::{Upload, UploadArguments, Wanted};
use crate::arguments::{TimeoutArguments, threads};
use crate::memory_limit;
use crate::summary;
use crate::tell::tell;
use crate::{progress, signals, size, timeout};

/// Default directory.
pub const DEFAULT_DIRECTORY: &str = "/var/crash";
/// Bytes per unit of the progress counter.
const BLOCK: u64 = 4096;

/// `bigiron save`.
#[derive(Debug, Args)]
#[command(override_usage = "bigiron save [OPTIONS] <SOURCE>... [DIR]")]
#[command(after_long_help = HELP)]
pub struct SaveArguments {
    /// The dump, followed by the directory to save it in [default: /var/crash]
    ///
    /// The dump is a dump device, a dump file, or all parts of a split or striped dump.
    #[cfg_attr(
        feature = "objects",
        doc = "\n\nIn place of the directory an object, s3://BUCKET/KEY, takes what is on a device or in a file."
    )]
    #[arg(required = true, value_names = ["SOURCE"])]
    pub paths: Vec<PathBuf>,
    /// Expand to an uncompressed ELF core, DIR/vmcore.N
    #[arg(short = 'f', long)]
    pub expand: bool,
    /// Save the dump even if it was saved before, or the device marks it as saved
    #[arg(short = 'd', long)]
    pub again: bool,
    /// Keep the device's valid mark set
    #[arg(short, long)]
    pub keep: bool,
    /// Clear the device's valid mark, and exit with status 0, even if some of the dump cannot be
    /// read
    #[arg(long)]
    pub accept_loss: bool,
    /// Do not write the kernel log to DIR/dmesg.N
    #[arg(long)]
    pub no_log: bool,
    /// File with age secret keys; an encrypted dump is then saved decrypted
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Helper threads [default: one per CPU]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
    /// Memory for all helpers together, such as 64M [default: a quarter of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub memory_limit: Option<u64>,
    /// The dumps that stay.
    #[cfg(feature = "retention")]
    #[command(flatten)]
    pub retention: RetentionArguments,
    /// Objects.
    #[cfg(feature = "objects")]
    #[command(flatten)]
    pub uploads: UploadArguments,
    /// The time limit.
    #[command(flatten)]
    pub time: TimeoutArguments,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print only errors and warnings
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
}

const HELP: &str = "\
A dump is saved in its compressed form as DIR/vmdump.N; an ELF core, which is not compressed, as \
DIR/vmcore.N. N increases with each dump, and nothing is ever replaced. The kernel log is written to \
DIR/dmesg.N, and a description of the dump to DIR/info.N. The parts of a split or striped dump become \
one file; devices among them are marked as saved once that file exists and no part is missing. Of a dump \
that is not complete the facts and the log that were written before any page go to DIR/report.N. If there are \
several dumps on a device (`bigiron dump --keep both`), all are saved, the oldest first.

The command can be killed at any moment and run again: the device's valid mark is cleared only when \
the copy is on the disk, and a dump that is already saved is not saved again. The file DIR/minfree \
contains the number of KiB that must stay free.

The last path is the directory if it is one, ends with a slash, or follows a disk or partition; \
it is created if necessary.

What a failing disk does not return is zero in the copy, and named; the device keeps its valid mark, and the \
exit status is 1, unless --accept-loss is given.

Exit status: 0 the dump is saved, or there is none; 1 failure, with the reason on standard error; 124 ended by \
--timeout, as by a signal: the next run saves the dump.

Examples:
  bigiron save /dev/disk/by-partlabel/crash
  bigiron save -f /var/crash/vmdump.0 /var/crash
  bigiron save part1 part2 part3 /var/crash
  bigiron save /dev/sdb /dev/sdc /var/crash";

/// The work to do, from either command line.
pub struct Work {
    pub sources: Vec<PathBuf>,
    pub options: SaveOptions,
    pub accepts_loss: bool,
    pub log: bool,
    pub shows_progress: bool,
}

/// Saves a dump and reports it.
pub fn run(arguments: &SaveArguments) -> anyhow::Result<()> {
    #[cfg(feature = "objects")]
    if let Some(wanted) = arguments.uploads.wanted(&arguments.paths)? {
        arguments.time.begin(&arguments.paths)?;
        return match wanted {
            Wanted::Completion(objects) => arguments.uploads.complete(objects),
            Wanted::Upload(sources, target) => {
                let how = Upload {
                    options: options(arguments, PathBuf::new()),
                    is_verbose: !arguments.quiet && !arguments.json,
                };
                let is_saved = arguments.uploads.upload(sources, target, how)?;
                #[cfg(feature = "retention")]
                if is_saved {
                    arguments.retention.apply_beside(target);
                }
                let _ = is_saved;
                Ok(())
            }
        };
    }
    let (sources, directory) = split_paths(&arguments.paths);
    arguments.time.begin(sources)?;
    let work = Work {
        sources: sources.to_vec(),
        options: options(arguments, directory),
        accepts_loss: arguments.accept_loss,
        log: !arguments.no_log,
        shows_progress: !arguments.quiet && !arguments.json,
    };
    memory_limit::limit_opening(arguments.memory_limit);
    loop {
        let begin = Instant::now();
        let outcome = perform(&work)?;
        print(arguments, &outcome, sources, begin.elapsed().as_secs_f64())?;
        outcome.check_loss()?;
        if !outcome.leads_to_another() {
            #[cfg(feature = "retention")]
            arguments
                .retention
                .apply(&work.options.directory, outcome.number());
            return Ok(());
        }
    }
}

/// The options of a save in `directory`.
fn options(arguments: &SaveArguments, directory: PathBuf) -> SaveOptions {
    let memory = arguments.memory_limit;
    SaveOptions {
        directory,
        expand: arguments.expand,
        again: arguments.again,
        keep_mark: arguments.keep,
        identity: arguments.identity.clone(),
        threads: threads(arguments.threads),
        memory: memory.map_or_else(MemoryBudget::from_free_memory, MemoryBudget::of),
    }
}

/// Reports a save.
fn print(
    arguments: &SaveArguments,
    outcome: &Outcome,
    sources: &[PathBuf],
    seconds: f64,
) -> anyhow::Result<()> {
    if arguments.json {
        let mut report = outcome.report(sources.first().map_or(Path::new(""), PathBuf::as_path));
        (report.seconds, report.peak_memory) = (seconds, peak_memory());
        summary::print_report(&serde_json::to_string_pretty(&report)?, false);
    } else if !arguments.quiet {
        let names: Vec<_> = sources.iter().map(|s| s.display().to_string()).collect();
        summary::print_report(&outcome.text(&names.join(", "), seconds), false);
    }
    Ok(())
}

/// Saves a dump.
pub fn perform(work: &Work) -> anyhow::Result<Outcome> {
    let stop = Stop::new();
    signals::watch(&stop)?;
    timeout::stop_with(&stop);
    let waiting = |path: &Path| {
        tell!(
            "bigiron: {}: waiting for another program that is writing or saving it",
            path.display()
        );
    };
    let found = Save::open(&work.sources, work.options.clone(), &stop, &waiting)?;
    let Some(save) = found else {
        return Ok(Outcome::Nothing);
    };
    memory_limit::opened(work.options.memory);
    let clears = save.has_mark() && !work.options.keep_mark;
    if save.is_nothing() {
        let report = store_report(&save, None, &stop)?;
        if clears {
            save.clear()?;
        }
        return Ok(Outcome::Empty {
            report,
            mark_cleared: clears,
            has_more: save.has_more(),
        });
    }
    let progress = Arc::new(Progress::new());
    let display = progress::begin(&progress, BLOCK, !work.shows_progress);
    let stored = save.store(&progress, &stop);
    drop(display);
    let saved = stored?;
    print_warnings(&saved.warnings);
    if let Some(damage) = &saved.damage {
        tell!(
            "bigiron: warning: {}: the dump is not complete: {damage}",
            saved.path.display()
        );
    }
    if saved.encrypted {
        tell!(
            "bigiron: {}: is encrypted and stays so: it has no kernel log and cannot be checked for \
             completeness; --identity FILE decrypts it",
            saved.path.display()
        );
    }
    // Before the mark is cleared: a killed run is repeated.
    let log = match work.log && !saved.encrypted {
        true => write_log(&saved, &stop)?,
        false => None,
    };
    let report = match saved.damage.is_some() || save.is_cut_short() {
        true => store_report(&save, Some(&saved), &stop)?,
        false => None,
    };
    let refuses_loss = saved.unreadable.is_some() && !work.accepts_loss;
    let clears = clears && !refuses_loss;
    if clears {
        save.clear()?;
    }
    Ok(Outcome::Saved {
        saved,
        log,
        report,
        mark_cleared: clears,
        refuses_loss,
        has_more: save.has_more(),
    })
}

/// Stores the report of a dump that is not complete; returns its path, or `None` if there is none.
fn store_report(
    save: &Save,
    saved: Option<&Saved>,
    stop: &Stop,
) -> Result<Option<PathBuf>, DumpError> {
    match save.report() {
        Ok(None) => Ok(None),
        Ok(Some(report)) => save.store_report(&report, saved, stop).map(Some),
        Err(error) => {
            tell!(
                "bigiron: warning: cannot read the report: {}",
                crate::errors::message(&error.into())
            );
            Ok(None)
        }
    }
}

/// Prints warnings about the directory, and about the files of other users in it.
pub fn print_warnings(warnings: &[String]) {
    for warning in warnings {
        tell!("bigiron: warning: {warning}");
    }
}

/// Writes the kernel log next to the saved dump, if the dump has one; returns its path.
///
/// # Errors
///
/// A signal ended the work.
pub fn write_log(saved: &Saved, stop: &Stop) -> Result<Option<PathBuf>, DumpError> {
    let log = dmesg::save_log(saved, stop);
    if stop.is_set() {
        return Err(DumpError::Interrupted { kept: None });
    }
    let warning = match log {
        Ok(log) => {
            print_warnings(&log.warnings);
            if let Some(why) = log.truncated {
                tell!("bigiron: warning: {}: {why}", saved.path.display());
            }
            return Ok(log.path);
        }
        Err(error) => crate::errors::message(&error),
    };
    tell!("bigiron: warning: cannot save the kernel log: {warning}");
    Ok(None)
}

/// Splits the arguments into sources and directory. The last path is the directory if it is
/// one, or if it is to be created.
fn split_paths(paths: &[PathBuf]) -> (&[PathBuf], PathBuf) {
    let is_block_device = |path: &Path| {
        fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
    };
    // A path that does not exist cannot be a part.
    if let [sources @ .., last] = paths
        && let Some(first) = sources.first()
        && (last.is_dir()
            || last.as_os_str().as_encoded_bytes().ends_with(b"/")
            || is_block_device(first) && !last.exists())
    {
        return (sources, last.clone());
    }
    (paths, PathBuf::from(DEFAULT_DIRECTORY))
}
