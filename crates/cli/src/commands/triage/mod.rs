//! `bigiron triage`: one table of the crashes of many machines.

mod dates;
mod members;
mod object;
mod row;
mod show;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use bigiron_fleet::{Child, Found, Limits, Outcome, Row, Run, Shard};
use bigiron_helpers::{Stop, processor_count};
use bigiron_inspect::signature::RULES_VERSION;
use clap::{Args, Subcommand};

use crate::arguments::ReaderArguments;
use crate::objects;
use crate::signals;
use crate::tell::{print, tell};

/// Seconds for a dump, without `--timeout`.
const SECONDS: NonZeroU32 = NonZeroU32::new(600).unwrap();

/// Time that the process of a dump has to end after its limit.
const GRACE: Duration = Duration::from_secs(10);

/// `bigiron triage`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct TriageArguments {
    /// What is done with a table or with one dump.
    #[command(subcommand)]
    command: Option<TriageCommand>,
    /// Dumps and text logs: files, all parts of a split or striped dump separated by commas,
    /// directories, which are searched at any depth, and s3://BUCKET/PREFIX (also gs://, az://)
    #[arg(required_unless_present = "files_from", value_name = "SOURCE")]
    dumps: Vec<PathBuf>,
    /// Read further sources from this file, or from standard input for -: one in a line
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// The directory of the table
    #[arg(short, long, value_name = "DIRECTORY", required = true)]
    output: Option<PathBuf>,
    /// Do part I of N, counted from 0: a file of its own, for jobs on several machines
    #[arg(long, value_name = "I/N", default_value_t)]
    shard: Shard,
    /// Processes at a time [default: the number of CPUs]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroU16>,
    /// Describe those dumps again that could not be described
    #[arg(long)]
    retry: bool,
    /// Leave the names of hosts out
    #[arg(long)]
    no_host: bool,
    /// File with age secret keys, in the format of age-keygen, for encrypted dumps
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// What a dump can cost.
    #[command(flatten)]
    reader: ReaderArguments,
}

/// What is done with a table or with one dump.
#[derive(Debug, Subcommand)]
enum TriageCommand {
    /// Print the row of one dump or text log as JSON
    Row(row::RowArguments),
    /// Show a table: crashes by machines, kernels affected, hosts that crash in many ways
    Show(show::ShowArguments),
}

const HELP: &str = "\
Each dump and each text log becomes a row: what crash it is (bigiron info), the kernel, the machine, where the file \
lies. The table is a directory of Parquet files, which DuckDB, pandas and Spark read (docs/fleet.md).

Run it again to add dumps: those that are done and have not changed are skipped. Each dump is read by a process of its \
own, limited to --timeout (600 seconds if not given) and --memory-limit: a dump that cannot be read costs its own row \
an error, and the exit status is still 0.

Examples:
  bigiron triage /var/crash -o crashes
  find /srv/dumps -name vmcore | bigiron triage --files-from - -o crashes
  bigiron triage /srv/dumps -o crashes --shard $SLURM_ARRAY_TASK_ID/16
  bigiron triage s3://dumps/2026/ -o crashes
  bigiron triage show crashes";

/// Makes a table, or does what the command says.
pub fn run(arguments: &TriageArguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Some(TriageCommand::Row(arguments)) => row::run(arguments)?,
        Some(TriageCommand::Show(arguments)) => show::run(arguments)?,
        None => return make(arguments),
    }
    Ok(ExitCode::SUCCESS)
}

fn make(arguments: &TriageArguments) -> anyhow::Result<ExitCode> {
    let output = arguments
        .output
        .as_deref()
        .context("there is no --output")?;
    let mut sources = arguments.dumps.clone();
    if let Some(list) = &arguments.files_from {
        sources.extend(read_list(list)?);
    }
    let found = find(sources)?;
    let stop = Stop::new();
    signals::watch(&stop)?;
    let jobs = arguments.jobs.map(|jobs| usize::from(jobs.get()));
    let run = Run {
        directory: output,
        shard: arguments.shard,
        workers: jobs.unwrap_or_else(processor_count),
        child: child(arguments)?,
        retry: arguments.retry,
        rules_version: RULES_VERSION,
        stop: &stop.flag(),
    };
    let outcome = bigiron_fleet::run(&found, &run, &|row| {
        if row.has_failed() {
            tell!("bigiron: warning: {}", failure(row));
        }
    })?;
    print(&summary(&outcome))?;
    let stopped = outcome.is_stopped.then(signals::code).flatten();
    Ok(stopped.map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// Finds the dumps and logs, by path.
fn find(sources: Vec<PathBuf>) -> anyhow::Result<Vec<Found>> {
    // Several objects of one dump are read as they are named.
    let is_prefix = |source: &PathBuf| {
        let name = source.to_str();
        let has_several = |name: &str| name.split(',').skip(1).any(bigiron_objects::is_object);
        objects::is_object(source) && name.is_some_and(|name| !has_several(name))
    };
    let (prefixes, sources): (Vec<_>, Vec<_>) = sources.into_iter().partition(is_prefix);
    let (mut found, warnings) = bigiron_fleet::find(&sources);
    for warning in &warnings {
        tell!("bigiron: warning: {warning}");
    }
    if !prefixes.is_empty() {
        let names: Vec<String> = prefixes
            .into_iter()
            .filter_map(|prefix| prefix.into_os_string().into_string().ok())
            .collect();
        found.extend(objects::find::find(&names)?);
        found.sort_by(|one, other| one.path.cmp(&other.path));
        found.dedup_by(|one, other| one.path == other.path);
    }
    Ok(found)
}

fn read_list(name: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut list: Box<dyn BufRead> = match name == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => {
            Box::new(BufReader::new(File::open(name).with_context(|| {
                format!("{}: cannot open the list", name.display())
            })?))
        }
    };
    Ok(bigiron_fleet::read_list(&mut list, name)?)
}

/// This program, as it describes a dump.
fn child(arguments: &TriageArguments) -> anyhow::Result<Child> {
    let ReaderArguments {
        time,
        no_sandbox,
        memory_limit,
        ..
    } = arguments.reader;
    let seconds = time.timeout.unwrap_or(SECONDS);
    let mut options = vec![
        OsString::from("triage"),
        "row".into(),
        format!("--timeout={seconds}").into(),
    ];
    options.extend(memory_limit.map(|bytes| format!("--memory-limit={bytes}").into()));
    options.extend(no_sandbox.then(|| "--no-sandbox".into()));
    options.extend(arguments.no_host.then(|| "--no-host".into()));
    if let Some(identity) = &arguments.identity {
        options.extend(["--identity".into(), identity.into()]);
    }
    Ok(Child {
        program: std::env::current_exe().context("cannot find the program itself")?,
        arguments: options,
        limits: Limits {
            time: Duration::from_secs(seconds.get().into()),
            grace: GRACE,
        },
    })
}

/// Names the dump and why it could not be described.
fn failure(row: &Row) -> String {
    let reason = row.errors.join("; ");
    match reason.contains(&row.path) {
        true => reason,
        false => format!("{}: {reason}", row.path),
    }
}

fn summary(outcome: &Outcome) -> String {
    let Outcome {
        table,
        rows,
        failed,
        described,
        skipped,
        is_stopped,
    } = outcome;
    let state = match is_stopped {
        true => "stopped early; run it again to go on",
        false => "complete",
    };
    format!(
        "{}: {rows} rows, {described} new, {skipped} done before, {failed} could not be described; \
         {state}\n",
        table.display()
    )
}
