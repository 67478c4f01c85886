//! `bigiron mem destroy`.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bigiron_memory::segment::{Removal, Removed, Target};
use serde::Serialize;

use crate::arguments::memory::DestroyArguments;
use crate::errors::FAILED;
use crate::size;
use crate::summary;
use crate::tell::tell;

/// Time limit for a reaper: freeing all memory of a machine in 4 KiB pages takes minutes.
const REAPER_LIMIT: Duration = Duration::from_secs(3600);

#[derive(Serialize)]
struct Report {
    segment: String,
    bytes: u64,
    /// Time until the segment no longer existed, for which the caller waited.
    wait_seconds: f64,
    /// Time until its memory was freed; absent without `--wait`.
    #[serde(skip_serializing_if = "Option::is_none")]
    complete_seconds: Option<f64>,
    /// True if a reaper frees the memory.
    reaper: bool,
    /// Remaining attachments.
    attached: u64,
}

/// Removes each target. A failure does not prevent the others.
pub fn run(arguments: &DestroyArguments) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().ok();
    let program = program.and_then(|path| CString::new(path.into_os_string().into_vec()).ok());
    let how = Removal {
        plain: arguments.plain,
        reaper: program.as_deref(),
        settings: arguments.helpers.settings(),
    };
    let (mut reports, mut failed) = (Vec::new(), false);
    for name in &arguments.targets {
        let began = Instant::now();
        let removed =
            Target::find(name).and_then(|target| Ok((target.to_string(), target.remove(&how)?)));
        match removed {
            Ok((what, removed)) => {
                let report = complete(what, removed, began, arguments.wait);
                if !arguments.output.json && !arguments.output.quiet {
                    tell!("{}", describe(&report));
                }
                reports.push(report);
            }
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

fn complete(segment: String, removed: Removed, began: Instant, wait: bool) -> Report {
    let reaper = removed.finishing.is_some();
    let complete = match removed.finishing {
        Some(finishing) if wait => finishing.wait(REAPER_LIMIT).map(|_| began.elapsed()),
        Some(_) => None,
        None => (removed.attached == 0).then_some(removed.waited),
    };
    Report {
        segment,
        bytes: removed.bytes,
        wait_seconds: removed.waited.as_secs_f64(),
        complete_seconds: complete.map(|time| time.as_secs_f64()),
        reaper,
        attached: removed.attached,
    }
}

fn describe(report: &Report) -> String {
    let time = |seconds| super::display::time(Duration::from_secs_f64(seconds));
    let bytes = size::format(report.bytes);
    let what = format!(
        "{}: {bytes}, removed in {}",
        report.segment,
        time(report.wait_seconds)
    );
    match (report.attached, report.complete_seconds) {
        (0, Some(seconds)) if report.reaper => {
            format!("{what}, its memory freed after {}", time(seconds))
        }
        (0, Some(_)) => format!("{what}, with its memory"),
        (0, None) => format!("{what}; a reaper frees its memory"),
        (others, _) => format!(
            "{}: {bytes}, freed when {others} other attachments end",
            report.segment
        ),
    }
}
