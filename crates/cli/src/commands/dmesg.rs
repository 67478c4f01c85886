//! `bigiron dmesg`, and vmcore-dmesg of kexec-tools: the kernel log in a dump.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use bigiron_dump::{FileOutput, Output, Saved, SavedLog};
use bigiron_helpers::Stop;
use bigiron_kernel::KernelError;
use bigiron_kernel::printk::{Log, LogError, LogSummary, Record, RecordText, TextStyle};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::arguments::{ReaderArguments, SourceArguments};
use crate::sandbox::Needs;
use crate::source::{self, Reading};
use crate::tell::{escaped, is_closed_pipe, tell, write_output};

/// Buffer size; records are written in small parts.
const BUFFER: usize = 64 << 10;

/// `bigiron dmesg`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct DmesgArguments {
    /// The dump: /proc/vmcore, an ELF core, a kdump-compressed or flattened dump, all parts of
    /// a split or striped one, or - for standard input
    #[arg(required = true)]
    pub dump: Vec<PathBuf>,
    /// Write to this file, which must not exist
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print one JSON object per record and line
    #[arg(long, conflicts_with_all = ["decode", "caller"])]
    pub json: bool,
    /// Print facility and level before each record
    #[arg(short = 'x', long)]
    pub decode: bool,
    /// Print the task or CPU after each time: T1 is the task with PID 1, C1 is CPU 1
    #[arg(long)]
    pub caller: bool,
    /// Print only records of these levels
    #[arg(short, long, value_name = "LEVEL", value_delimiter = ',')]
    pub level: Vec<Level>,
    /// Print only records logged after the last `dmesg --clear`
    #[arg(long)]
    pub since_clear: bool,
    /// Print the console of the hypervisor, of a Xen host
    #[arg(long, conflicts_with_all = ["output", "json", "decode", "caller", "level", "since_clear"])]
    pub xen: bool,
    /// Options for reading the source.
    #[command(flatten)]
    pub source: SourceArguments,
}

const HELP: &str = "\
If the program is called as vmcore-dmesg, `vmcore-dmesg DUMP` prints the log as vmcore-dmesg of \
kexec-tools does.

Unreadable parts of the log are skipped, with a warning on standard error.

Examples:
  bigiron dmesg /proc/vmcore
  bigiron dmesg --xen vmcore
  bigiron dmesg -x --level err,warn vmcore
  bigiron dmesg --json vmcore | jq -r 'select(.subsystem == \"pci\") | .text'";

/// Levels, named as in dmesg(1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// System is unusable
    Emerg,
    /// Action must be taken immediately
    Alert,
    /// Critical conditions
    Crit,
    /// Errors
    Err,
    /// Warnings
    Warn,
    /// Normal but significant
    Notice,
    /// Informational
    Info,
    /// Debug messages
    Debug,
}

/// A record as JSON.
#[derive(Serialize)]
struct JsonRecord<'a> {
    seq: Option<u64>,
    ts_nsec: Option<u64>,
    level: Option<u8>,
    facility: Option<u8>,
    caller: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subsystem: Option<std::borrow::Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<std::borrow::Cow<'a, str>>,
    text: Option<std::borrow::Cow<'a, str>>,
}

impl<'a> JsonRecord<'a> {
    fn new(record: &'a Record<'a>) -> Self {
        let text = match record.text {
            RecordText::Absent => None,
            text => Some(String::from_utf8_lossy(text.bytes())),
        };
        let device = record.device.as_ref();
        Self {
            seq: record.seq,
            ts_nsec: record.ts_nsec,
            level: record.level,
            facility: record.facility,
            caller: record.caller.map(|caller| caller.to_string()),
            subsystem: device.map(|d| String::from_utf8_lossy(d.subsystem)),
            device: device.map(|d| String::from_utf8_lossy(d.device)),
            text,
        }
    }
}

/// Prints the log.
pub fn run(arguments: &DmesgArguments) -> anyhow::Result<()> {
    let reading = Reading::open(&arguments.dump, &arguments.source)?;
    if arguments.xen {
        return print_console(reading);
    }
    let Some(path) = &arguments.output else {
        return with_log(reading, &Needs::Nothing, "bigiron", |log| {
            Ok(write(log, arguments, &mut io::stdout().lock())?)
        });
    };
    let output = new_file(path)?;
    with_log(reading, &Needs::Output(path), "bigiron", |log| {
        let result = || -> Result<LogSummary, LogError> {
            let summary = write(log, arguments, &mut output.file())?;
            output.finish()?;
            Ok(summary)
        };
        result().with_context(|| path.display().to_string())
    })
    .inspect_err(|_| output.discard())
}

/// Prints the console of a Xen host's hypervisor.
fn print_console(reading: Reading<'_>) -> anyhow::Result<()> {
    let opened = reading.parse(&Needs::Nothing)?;
    let name = |error: KernelError| source::name_error(error.into(), opened.source.path());
    let host = opened.host()?.ok_or(KernelError::NoXenHost).map_err(name)?;
    let console = host.console().map_err(name)?;
    Ok(write_output(&String::from_utf8_lossy(&console))?)
}

/// Writes the log of a saved dump to a new file beside it, as plain text.
pub fn save_log(saved: &Saved, stop: &Stop) -> anyhow::Result<SavedLog> {
    bigiron_dump::save_log(saved, stop, |out| {
        let how = SourceArguments {
            reader: ReaderArguments::WRITER,
            ..SourceArguments::default()
        };
        let reading = Reading::open(std::slice::from_ref(&saved.path), &how)?;
        with_log(reading, &Needs::Nothing, "bigiron", |log| {
            let mut out = BufWriter::with_capacity(BUFFER, out);
            let summary = log.write_styled(&mut out, false, TextStyle::PLAIN)?;
            out.flush()?;
            Ok(summary)
        })
    })
}

/// Creates a file, under a temporary name until it is complete.
fn new_file(path: &Path) -> anyhow::Result<FileOutput> {
    anyhow::ensure!(
        fs::symlink_metadata(path).is_err(),
        "{}: already exists; remove it first",
        path.display()
    );
    Ok(FileOutput::create(path, false)?)
}

fn write(
    log: &Log<'_>,
    arguments: &DmesgArguments,
    out: &mut dyn Write,
) -> Result<LogSummary, LogError> {
    let mut out = BufWriter::with_capacity(BUFFER, out);
    let style = TextStyle {
        level_names: arguments.decode,
        caller: arguments.caller,
        ..TextStyle::PLAIN
    };
    let summary = if !arguments.json && arguments.level.is_empty() {
        log.write_styled(&mut out, arguments.since_clear, style)?
    } else {
        log.for_each(arguments.since_clear, &mut |record| {
            let level = record.level.map(usize::from);
            let wanted = |wanted: &Level| level == Some(*wanted as usize);
            if !arguments.level.is_empty() && !arguments.level.iter().any(wanted) {
                return Ok(());
            }
            if !arguments.json {
                return style.write(&mut out, record);
            }
            let line = serde_json::to_string(&JsonRecord::new(record))? + "\n";
            out.write_all(escaped(&line).as_bytes())
        })?
    };
    out.flush()?;
    Ok(summary)
}

/// Reads a dump, calls `print` with its log, and prints warnings.
fn with_log(
    reading: Reading<'_>,
    needs: &Needs<'_>,
    program: &str,
    print: impl FnOnce(&Log<'_>) -> anyhow::Result<LogSummary>,
) -> anyhow::Result<()> {
    let opened = reading.parse(needs)?;
    let kernel = opened.kernel()?;
    let path = opened.source.path();
    let name = |error| source::name_error(error, path);
    let log = Log::open(&kernel).map_err(|error| name(error.into()))?;
    let summary = match print(&log) {
        Ok(summary) => summary,
        Err(error) => {
            return match error.downcast_ref() {
                Some(LogError::Write(error)) if is_closed_pipe(error) => Ok(()),
                _ => Err(name(error)),
            };
        }
    };
    for warning in summary.warnings() {
        tell!("{program}: warning: {}: {warning}", path.display());
    }
    Ok(())
}

/// Returns the log in the default format, and its summary.
#[cfg(feature = "mount")]
pub fn plain(kernel: &bigiron_kernel::Kernel) -> Result<(Vec<u8>, LogSummary), LogError> {
    let mut text = Vec::new();
    let summary = Log::open(kernel)?.write_styled(&mut text, false, TextStyle::PLAIN)?;
    Ok((text, summary))
}

/// Runs as `vmcore-dmesg DUMP`; returns its exit code: 1 for an invalid command line, 2 for a
/// dump that cannot be opened, others if the dump has no log. One difference remains: in a log
/// of records that wrapped, kexec-tools prints the mark at the end of the buffer as an empty
/// record.
pub fn run_as_alias(program: &Path, arguments: &[OsString]) -> u8 {
    let [dump] = arguments else {
        tell!("usage: {} <kernel core file>", program.display());
        return 1;
    };
    let dump = PathBuf::from(dump);
    if let Err(error) = fs::File::open(&dump) {
        tell!("Cannot open {}: {error}", dump.display());
        return 2;
    }
    let print = |log: &Log<'_>| {
        let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
        // Byte for byte as kexec-tools does, but not to a terminal, which the log could control.
        let style = TextStyle {
            exact: !io::stdout().is_terminal(),
            ..TextStyle::VMCORE_DMESG
        };
        let summary = log.write_styled(&mut out, false, style)?;
        out.flush().map_err(LogError::Write)?;
        Ok(summary)
    };
    let how = SourceArguments::default();
    let printed = Reading::open(&[dump], &how)
        .and_then(|reading| with_log(reading, &Needs::Nothing, "vmcore-dmesg", print));
    match printed {
        Ok(()) => 0,
        Err(error) => {
            tell!("vmcore-dmesg: {}", crate::errors::message(&error));
            NO_LOG
        }
    }
}

/// Exit code of vmcore-dmesg of kexec-tools if a symbol of the log is missing.
const NO_LOG: u8 = 50;
