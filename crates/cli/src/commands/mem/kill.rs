//! `bigiron mem kill`.

use std::process::ExitCode;

use anyhow::Context;
use bigiron_memory::kill::{Killed, kill};
use rustix::process::Pid;
use serde::Serialize;

use crate::arguments::memory::KillArguments;
use crate::errors::FAILED;
use crate::size;
use crate::summary;
use crate::tell::tell;

#[derive(Serialize)]
struct Report {
    process: i32,
    private_bytes: u64,
    seconds: f64,
    helpers: usize,
}

/// Kills each process. A failure does not prevent the others.
pub fn run(arguments: &KillArguments) -> anyhow::Result<ExitCode> {
    let (mut reports, mut failed) = (Vec::new(), false);
    for &process in &arguments.processes {
        match kill_one(process, usize::from(arguments.helpers)) {
            Ok(killed) => {
                if !arguments.json && !arguments.quiet {
                    tell!("{}", describe(process, &killed));
                }
                reports.push(Report {
                    process,
                    private_bytes: killed.private_bytes,
                    seconds: killed.elapsed.as_secs_f64(),
                    helpers: killed.helpers,
                });
            }
            Err(error) => {
                tell!("bigiron: {error:#}");
                failed = true;
            }
        }
    }
    if arguments.json {
        summary::print(&serde_json::to_string_pretty(&reports)?, false)?;
    }
    Ok(ExitCode::from(if failed { FAILED } else { 0 }))
}

fn kill_one(process: i32, helpers: usize) -> anyhow::Result<Killed> {
    let pid = Pid::from_raw(process).context("0 is not the id of a process")?;
    let killed = kill(pid, helpers).map_err(std::io::Error::from);
    killed.with_context(|| format!("cannot kill process {process}"))
}

fn describe(process: i32, killed: &Killed) -> String {
    let by = match killed.helpers {
        0 => "without helpers".to_owned(),
        1 => "with 1 helper".to_owned(),
        several => format!("with {several} helpers"),
    };
    format!(
        "process {process}: {} of private memory, ended in {} {by}",
        size::format(killed.private_bytes),
        super::display::time(killed.elapsed)
    )
}
