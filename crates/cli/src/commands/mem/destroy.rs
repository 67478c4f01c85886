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

/// How long a reaper is waited for: pages of 4 KiB of a machine's memory take minutes.
const LONGEST: Duration = Duration::from_secs(3600);

#[derive(Serialize)]
struct Report {
    segment: String,
    bytes: u64,
    /// What the caller waited: then it was gone for all who look.
    wait_seconds: f64,
    /// Until its memory was free; none where nobody waited for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    complete_seconds: Option<f64>,
    /// Whether a process of its own gives the memory back.
    reaper: bool,
    /// How many still have it attached.
    attached: u64,
}

/// Removes all that is named; what cannot be removed does not keep the others.
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
        Some(finishing) if wait => finishing.wait(LONGEST).map(|_| began.elapsed()),
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
        "{}: {bytes}, gone after {}",
        report.segment,
        time(report.wait_seconds)
    );
    match (report.attached, report.complete_seconds) {
        (0, Some(seconds)) if report.reaper => {
            format!("{what}, its memory free after {}", time(seconds))
        }
        (0, Some(_)) => format!("{what} with its memory"),
        (0, None) => format!("{what}; a reaper gives its memory back"),
        (others, _) => format!(
            "{}: {bytes}, goes when {others} others detach it",
            report.segment
        ),
    }
}
