//! `bigiron verify`.

use std::fmt::Write as _;
use std::iter;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use bigiron_dump::{DumpError, Progress};
use bigiron_helpers::Stop;
use bigiron_kernel::Source;
use clap::Args;
use serde::Serialize;

use crate::arguments::{ReaderArguments, threads};
use crate::memory_limit::ReadBuffers;
use crate::progress;
use crate::sandbox::Needs;
use crate::source::{self, Files};
use crate::tell::tell;
use crate::{signals, size, summary};

/// `bigiron verify`.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// The dump; all parts of a split or striped one
    #[arg(required = true)]
    pub dump: Vec<PathBuf>,
    /// Write the missing index and end of a vmdump that was truncated or whose writer was
    /// interrupted
    #[arg(long)]
    pub repair: bool,
    /// Source of the dump, to which every page must be equal; parts of a split or striped one
    /// as A,B,C
    #[arg(long, value_name = "SOURCE")]
    pub against: Option<PathBuf>,
    /// File with age secret keys, for encrypted dumps
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// What an untrusted dump can cost.
    #[command(flatten)]
    pub reader: ReaderArguments,
    /// Helper threads [default: one per CPU]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print only errors
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Serialize)]
struct Result {
    dump: PathBuf,
    against: Option<PathBuf>,
    complete: bool,
    pages: u64,
    lost: u64,
    damaged: u64,
    left_out: u64,
    /// Defects of a vmdump outside its pages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<String>,
}

/// Verifies a dump and prints the result.
pub fn run(arguments: &VerifyArguments) -> anyhow::Result<()> {
    let stop = Stop::new();
    signals::watch(&stop)?;
    arguments.reader.time.begin(&arguments.dump)?;
    if arguments.repair {
        repair(&arguments.dump)?;
    }
    let identity = arguments.identity.as_deref();
    let dump = Files::open_named(&arguments.dump, identity)?;
    let against = arguments.against.as_deref();
    let against = against.map(|path| Files::open_named(&source::parts_of(path), identity));
    let against = against.transpose()?;
    let files: Vec<&Files> = iter::once(&dump).chain(&against).collect();
    let helpers = threads(arguments.threads);
    let buffers = ReadBuffers { helpers, cache: 0 };
    arguments.reader.confine(&files, &Needs::default(), buffers);
    let dump = dump.parse()?;
    let against = against.map(Files::parse).transpose()?;
    if let Some(source) = &against {
        anyhow::ensure!(
            source.memory().page_shift() == dump.memory().page_shift(),
            "{}: its page size differs from that of {}",
            source.path().display(),
            dump.path().display()
        );
    }
    let progress = Arc::new(Progress::new());
    let display = progress::begin(&progress, 1 << dump.memory().page_shift(), arguments.quiet);
    let found = bigiron_dump::verify(
        dump.memory(),
        against.as_ref().map(Source::memory),
        helpers,
        &progress,
        &stop,
    );
    drop(display);
    let found = match found {
        Err(error @ DumpError::Interrupted { .. }) => return Err(error.into()),
        found => found.with_context(|| format!("{} is damaged", dump.path().display()))?,
    };
    let findings = match dump.memory().vmdump() {
        Some(vmdump) => bigiron_dump::check_vmdump(vmdump, threads(arguments.threads), &stop)
            .with_context(|| format!("{} cannot be read", dump.path().display()))?,
        None => Vec::new(),
    };
    let result = Result {
        dump: dump.path().to_owned(),
        against: arguments.against.clone(),
        complete: dump.damage().is_none()
            && found.lost == 0
            && found.damaged == 0
            && findings.is_empty(),
        pages: found.pages,
        lost: found.lost,
        damaged: found.damaged,
        left_out: found.left_out,
        findings,
    };
    if arguments.json {
        summary::print(&serde_json::to_string_pretty(&result)?, false)?;
    } else if !arguments.quiet {
        let equal = match &result.against {
            Some(path) => format!(", each equal to {}", path.display()),
            None => String::new(),
        };
        let mut text = format!(
            "{}: {} pages read{equal}; {} excluded, {} lost",
            result.dump.display(),
            size::group(result.pages),
            size::group(result.left_out),
            size::group(result.lost),
        );
        if result.damaged > 0 {
            let _ = write!(text, ", {} damaged", size::group(result.damaged));
        }
        summary::print(&text, false)?;
    }
    if result.complete {
        return Ok(());
    }
    let first = found.first_damage.map(|(frame, error)| {
        let (many, frame) = (size::group(result.damaged), frame.0);
        format!("{many} damaged pages; the first, page frame {frame}: {error}")
    });
    let incomplete = match (dump.damage(), result.lost) {
        (Some(damage), _) => Some(damage.to_owned()),
        (None, 0) => None,
        (None, lost) => Some(format!("{lost} pages lost")),
    };
    let name = result.dump.display();
    if let Some(finding) = result.findings.first() {
        let first = first.map_or(String::new(), |first| format!("; {first}"));
        let more = match result.findings.len() {
            1 => String::new(),
            count => format!(" (the first of {count} findings)"),
        };
        anyhow::bail!("{name} is damaged: {finding}{more}{first}");
    }
    match (incomplete, first) {
        (Some(why), None) => anyhow::bail!("{name} is incomplete but usable: {why}"),
        (Some(why), Some(first)) => {
            anyhow::bail!("{name} is incomplete but usable: {why}; {first}")
        }
        (None, Some(first)) => anyhow::bail!("{name} is damaged: {first}"),
        (None, None) => Ok(()),
    }
}

/// Writes the missing index and end of a vmdump.
fn repair(dump: &[PathBuf]) -> anyhow::Result<()> {
    let [path] = dump else {
        anyhow::bail!("--repair requires exactly one vmdump");
    };
    match bigiron_dump::repair_vmdump(path)? {
        Some(repair) => tell!(
            "bigiron: {}: index of {} chunks written, {} bytes of a truncated chunk removed",
            path.display(),
            size::group(repair.chunks),
            size::group(repair.cut_off)
        ),
        None => tell!(
            "bigiron: {}: its index is present; nothing to repair",
            path.display()
        ),
    }
    Ok(())
}
