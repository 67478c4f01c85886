//! `bigiron mem prewarm`.

use std::process::ExitCode;

use bigiron_helpers::Stop;
use bigiron_memory::segment::{SegmentError, Target};
use serde::Serialize;

use crate::arguments::memory::PrewarmArguments;
use crate::errors::FAILED;
use crate::progress::Line;
use crate::signals;
use crate::summary;
use crate::tell::tell;

#[derive(Serialize)]
struct Report {
    segment: String,
    bytes: u64,
    seconds: f64,
    bytes_per_second: f64,
    helpers: usize,
    locked: bool,
}

/// Populates each target. A failure does not prevent the others.
pub fn run(arguments: &PrewarmArguments) -> anyhow::Result<ExitCode> {
    let stop = Stop::new();
    signals::watch(&stop)?;
    let (mut reports, mut failed) = (Vec::new(), false);
    for name in &arguments.targets {
        match prewarm(name, arguments, &stop) {
            Ok(report) => reports.push(report),
            Err(error @ SegmentError::Interrupted { .. }) => return Err(error.into()),
            Err(error) => {
                tell!("bigiron: {error}");
                failed = true;
            }
        }
    }
    if arguments.output.json {
        summary::print(&serde_json::to_string_pretty(&reports)?, false)?;
    }
    Ok(ExitCode::from(if failed { FAILED } else { 0 }))
}

fn prewarm(name: &str, arguments: &PrewarmArguments, stop: &Stop) -> Result<Report, SegmentError> {
    let target = Target::find(name)?;
    let mut line = Line::new("Prewarm", target.bytes()?, arguments.output.quiet);
    if arguments.lock {
        // First, so that nothing is populated if locking is not permitted.
        target.lock()?;
    }
    let settings = arguments.helpers.settings();
    let done = target.prewarm(arguments.huge, &settings, &mut |done| {
        super::display::watch(&mut line, stop, done)
    })?;
    drop(line);
    if !arguments.output.json && !arguments.output.quiet {
        let rate = super::display::rate(done.bytes, done.elapsed);
        tell!("{target}: {rate}, by {} helpers", done.helpers);
    }
    Ok(Report {
        segment: target.to_string(),
        bytes: done.bytes,
        seconds: done.elapsed.as_secs_f64(),
        bytes_per_second: done.bytes as f64 / done.elapsed.as_secs_f64().max(1e-9),
        helpers: done.helpers,
        locked: arguments.lock,
    })
}
