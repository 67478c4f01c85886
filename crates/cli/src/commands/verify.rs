//! `bigiron verify`.

use std::fmt::Write as _;
use std::iter;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use bigiron_dump::{DumpError, Progress, Reference, Verification};
use bigiron_helpers::Stop;
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
    /// Source of the dump, to which every page must be equal, and of which no page may be missing
    /// that the dump level keeps; parts of a split or striped one as A,B,C
    #[arg(long, value_name = "SOURCE")]
    pub against: Option<PathBuf>,
    /// Read SOURCE, or without it the dump, as a raw image of memory: a file with its ranges of
    /// addresses as in /proc/iomem, or `flat` for one range from address 0 on
    #[arg(long, value_name = "FILE")]
    pub memory_map: Option<PathBuf>,
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
    /// Pages that rules blanked, which are not compared.
    #[serde(skip_serializing_if = "is_zero")]
    blank: u64,
    lost: u64,
    damaged: u64,
    left_out: u64,
    /// Pages of the source that the dump neither has nor leaves out by its level; with a source
    /// only.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<u64>,
    /// The reason why missing pages cannot be told from those that were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_unknown: Option<String>,
    /// Defects of a vmdump outside its pages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
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
    let map = arguments.memory_map.as_deref();
    let (dump, against) = match against.transpose()? {
        Some(source) => (dump, Some(source.with_memory_map(map)?)),
        None => (dump.with_memory_map(map)?, None),
    };
    let files: Vec<&Files> = iter::once(&dump).chain(&against).collect();
    let helpers = threads(arguments.threads);
    let buffers = ReadBuffers { helpers, cache: 0 };
    arguments.reader.confine(&files, &Needs::Nothing, buffers);
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
    let kernel = against
        .as_ref()
        .map(|source| bigiron_dump::find_kernel_by_dump(source, dump.memory()));
    source::warn_of_notes(&dump, None);
    if let Some(source) = &against {
        let kernel = kernel.as_ref().and_then(|kernel| kernel.as_ref().ok());
        source::warn_of_notes(source, kernel);
    }
    let reference = against.as_ref().zip(kernel.as_ref());
    let reference = reference
        .map(|(source, kernel)| Reference::new(source.memory(), dump.memory(), kernel.as_ref()));
    let unknown = reference.as_ref().and_then(Reference::why_unknown);
    let progress = Arc::new(Progress::new());
    let display = progress::begin(&progress, 1 << dump.memory().page_shift(), arguments.quiet);
    let found = bigiron_dump::verify(dump.memory(), reference.as_ref(), helpers, &progress, &stop);
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
            && found.missing == 0
            && findings.is_empty(),
        pages: found.pages,
        blank: found.blank,
        lost: found.lost,
        damaged: found.damaged,
        left_out: found.left_out,
        missing: against
            .is_some()
            .then_some(found.missing)
            .filter(|missing| unknown.is_none() || *missing > 0),
        missing_unknown: unknown.map(ToOwned::to_owned),
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
        if result.blank > 0 {
            let _ = write!(text, ", {} blank by rules", size::group(result.blank));
        }
        if result.damaged > 0 {
            let _ = write!(text, ", {} damaged", size::group(result.damaged));
        }
        if found.missing > 0 {
            let _ = write!(text, ", {} missing", size::group(found.missing));
        }
        summary::print(&text, false)?;
    }
    if let Some(reason) = unknown.filter(|_| !arguments.quiet) {
        tell!(
            "bigiron: {}: pages that the dump lacks are not checked: {reason}",
            result.dump.display()
        );
    }
    match complaint(dump.damage(), &result, &found, dump.memory().dump_level()) {
        Some(complaint) => anyhow::bail!("{}{complaint}", result.dump.display()),
        None => Ok(()),
    }
}

/// Describes a dump that is not complete and equal to its source, after its name.
fn complaint(
    damage: Option<&str>,
    result: &Result,
    found: &Verification,
    level: u8,
) -> Option<String> {
    let findings = result.findings.first().map(|finding| {
        let more = match result.findings.len() {
            1 => String::new(),
            count => format!(" (the first of {count} findings)"),
        };
        format!("{finding}{more}")
    });
    let damaged = found.first_damage.as_ref().map(|(frame, error)| {
        let many = size::group(found.damaged);
        format!(
            "{many} damaged pages; the first, page frame {}: {error}",
            frame.0
        )
    });
    let missing = found.first_missing.map(|frame| {
        let kept = match result.missing_unknown {
            Some(_) => String::new(),
            None => format!(" and that its dump level {level} keeps"),
        };
        let many = size::group(found.missing);
        format!(
            "{many} pages that the source has{kept} are missing; the first, page frame {}",
            frame.0
        )
    });
    let incomplete = match (damage, found.lost) {
        (Some(damage), _) => Some(damage.to_owned()),
        (None, 0) => None,
        (None, lost) => Some(format!("{lost} pages lost")),
    };
    let head = match (&findings, &incomplete, &damaged) {
        (Some(_), _, _) => " is damaged: ",
        (None, Some(_), _) => " is incomplete but usable: ",
        (None, None, Some(_)) => " is damaged: ",
        (None, None, None) => ": ",
    };
    // Findings include the reason why a vmdump is incomplete.
    let incomplete = incomplete.filter(|_| findings.is_none());
    let parts = [findings, incomplete, damaged, missing];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{head}{}", parts.join("; ")))
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
