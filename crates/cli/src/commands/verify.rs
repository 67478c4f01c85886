//! `bigiron verify`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use bigiron_dump::{DumpError, Progress};
use bigiron_helpers::Stop;
use bigiron_kernel::Source;
use serde::Serialize;

use super::report;
use crate::arguments::{VerifyArguments, threads};
use crate::progress;
use crate::{signals, size};

#[derive(Serialize)]
struct Result {
    dump: PathBuf,
    against: Option<PathBuf>,
    complete: bool,
    pages: u64,
    lost: u64,
    damaged: u64,
    left_out: u64,
}

/// Reads, compares, prints.
pub fn run(arguments: &VerifyArguments) -> anyhow::Result<()> {
    let stop = Stop::new();
    signals::watch(&stop)?;
    let dump = Source::open(&arguments.dump)?;
    let against = match &arguments.against {
        Some(path) => Some(Source::open(std::slice::from_ref(path))?),
        None => None,
    };
    if let Some(source) = &against {
        anyhow::ensure!(
            source.memory().page_shift() == dump.memory().page_shift(),
            "{}: has pages of another size than {}",
            source.path().display(),
            dump.path().display()
        );
    }
    let progress = Arc::new(Progress::new());
    let display = progress::begin(&progress, 1 << dump.memory().page_shift(), arguments.quiet);
    let found = bigiron_dump::verify(
        dump.memory(),
        against.as_ref().map(Source::memory),
        threads(arguments.threads),
        &progress,
        &stop,
    );
    drop(display);
    let found = match found {
        Err(error @ DumpError::Interrupted { .. }) => return Err(error.into()),
        found => found.with_context(|| format!("{} is damaged", dump.path().display()))?,
    };
    let result = Result {
        dump: dump.path().to_owned(),
        against: arguments.against.clone(),
        complete: dump.damage().is_none() && found.lost == 0 && found.damaged == 0,
        pages: found.pages,
        lost: found.lost,
        damaged: found.damaged,
        left_out: found.left_out,
    };
    if arguments.json {
        report::print(&serde_json::to_string_pretty(&result)?, false)?;
    } else if !arguments.quiet {
        let equal = match &result.against {
            Some(path) => format!(", each equal to {}", path.display()),
            None => String::new(),
        };
        let mut text = format!(
            "{}: {} pages read{equal}; {} left out, {} lost",
            result.dump.display(),
            size::group(result.pages),
            size::group(result.left_out),
            size::group(result.lost),
        );
        if result.damaged > 0 {
            let _ = write!(text, ", {} damaged", size::group(result.damaged));
        }
        report::print(&text, false)?;
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
    match (incomplete, first) {
        (Some(why), None) => anyhow::bail!("{name} is incomplete but usable: {why}"),
        (Some(why), Some(first)) => {
            anyhow::bail!("{name} is incomplete but usable: {why}; {first}")
        }
        (None, Some(first)) => anyhow::bail!("{name} is damaged: {first}"),
        (None, None) => Ok(()),
    }
}
