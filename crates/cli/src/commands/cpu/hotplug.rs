//! Common part of `bigiron cpu offline`, `online` and `smt`: a plan is made, shown, and carried
//! out.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::bail;
use bigiron_cpu::CpuList;
use bigiron_cpu::hotplug::settings::WatchdogCommand;
use bigiron_cpu::hotplug::{
    Cpus, Direction, HotplugError, Options, Outcome, Plan, SysRoot, carry_out, histogram,
};
use bigiron_helpers::Stop;
use clap::Args;
use serde::Serialize;

use crate::progress::Line;
use crate::signals;
use crate::tell::{print, tell};

/// Internal subcommand with which [`watchdog`] starts this program as a watchdog. It is checked
/// before all other commands, because the process that changes settings waits for it.
pub const WATCHDOG: &str = "watchdog";
pub(super) const ROOT: &str = "--root";

/// Options of hotplug commands.
#[derive(Debug, Args)]
pub struct HotplugArguments {
    /// Print the plan, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Rebuild the scheduler domains once for all CPUs, by means of an isolated cpuset
    /// partition; CPU bindings of processes and kernel threads may be lost
    /// (docs/cpu-hotplug.md)
    #[arg(long, conflicts_with = "plain")]
    batch: bool,
    /// Change no kernel settings temporarily: neither RCU expediting nor sched/verbose
    #[arg(long)]
    plain: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Do not show progress
    #[arg(short, long)]
    quiet: bool,
    /// Root of the kernel's files.
    #[command(flatten)]
    pub(super) root: RootArguments,
}

/// Root of the kernel's files, which tests replace.
#[derive(Debug, Args)]
pub struct RootArguments {
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    root: PathBuf,
}

impl RootArguments {
    /// Returns the root of the kernel's files.
    pub fn sys_root(&self) -> SysRoot {
        SysRoot::at(&self.root)
    }
}

/// Returns the command line of the watchdog.
pub fn watchdog(root: &SysRoot) -> WatchdogCommand {
    let path = root.root();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // Valid even if the program's file was replaced.
    let words = ["/proc/self/exe", "cpu", WATCHDOG, ROOT].map(OsString::from);
    words.into_iter().chain([path.into()]).collect()
}

/// Complete output, for programs.
#[derive(Serialize)]
struct Answer<'a> {
    plan: &'a Plan,
    /// `None` if nothing was to be changed.
    outcome: Option<&'a Outcome>,
}

/// Makes the plan, prints its side effects, and carries it out.
pub fn run(
    arguments: &HotplugArguments,
    command: String,
    plan: impl FnOnce(&SysRoot, &Cpus) -> Result<Plan, HotplugError>,
) -> anyhow::Result<()> {
    let root = arguments.root.sys_root();
    let cpus = Cpus::read(&root)?;
    let mut plan = plan(&root, &cpus)?;
    if arguments.plain {
        plan.settings.clear();
    }
    for line in plan.effects.to_string().lines() {
        tell!("bigiron: warning: {line}");
    }
    if arguments.dry_run {
        return match arguments.json {
            true => answer(&plan, None),
            false => print(&describe(&plan, arguments)),
        };
    }
    if plan.is_empty() {
        return match arguments.json {
            true => answer(&plan, None),
            false => print(&format!("nothing to do: {}\n", already(&plan))),
        };
    }
    let options = Options {
        watchdog: watchdog(&root),
        command,
        plain: arguments.plain,
        batch: arguments.batch,
    };
    // Before anything is changed: an early signal must not prevent settings from being
    // restored.
    let stop = Stop::new();
    signals::watch(&stop)?;
    let message = match plan.direction {
        Direction::Offline => "Offline",
        Direction::Online => "Online",
    };
    let total = match plan.order.len() {
        0 => cpus.offline.len(),
        some => some,
    };
    let mut line = Line::of_cpus(message, total as u64, arguments.quiet);
    let mut progress = |done: usize| line.show(done as u64);
    let outcome = carry_out(&root, &plan, &options, &|| stop.is_set(), &mut progress)?;
    drop(line);
    report(arguments, &plan, &outcome)
}

fn answer(plan: &Plan, outcome: Option<&Outcome>) -> anyhow::Result<()> {
    print(&(serde_json::to_string(&Answer { plan, outcome })? + "\n"))
}

fn already(plan: &Plan) -> String {
    let state = state(plan.direction);
    match plan.already.is_empty() {
        true => format!("no CPU has to go {state}"),
        false => format!("{} already {state}", are(&plan.already)),
    }
}

/// Returns `CPU 3 is` or `CPUs 3-5 are`.
fn are(cpus: &CpuList) -> String {
    match cpus.len() {
        1 => format!("CPU {cpus} is"),
        _ => format!("CPUs {cpus} are"),
    }
}

fn state(direction: Direction) -> &'static str {
    match direction {
        Direction::Offline => "offline",
        Direction::Online => "online",
    }
}

/// Returns the output of `--dry-run`.
fn describe(plan: &Plan, arguments: &HotplugArguments) -> String {
    let mut out = String::new();
    let order: Vec<String> = plan.order.iter().map(u32::to_string).collect();
    if let Some(value) = &plan.control_first {
        let _ = writeln!(
            out,
            "write {value} to smt/control; the kernel then brings CPUs online"
        );
    }
    if order.is_empty() && plan.control_first.is_none() {
        let _ = writeln!(out, "{}", already(plan));
    } else if !order.is_empty() {
        let _ = writeln!(
            out,
            "{} in this order: {}",
            state(plan.direction),
            order.join(" ")
        );
    }
    if let Some(value) = &plan.control_last {
        let _ = writeln!(out, "write {value} to smt/control, as the kernel's policy");
    }
    for wanted in &plan.settings {
        let file = wanted.file.display();
        let _ = writeln!(
            out,
            "during the operation, {file} is {} instead of {}",
            wanted.during, wanted.before
        );
    }
    if arguments.batch {
        let _ = writeln!(
            out,
            "during the operation, these CPUs are in an isolated cpuset partition"
        );
    }
    for note in &plan.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn report(arguments: &HotplugArguments, plan: &Plan, outcome: &Outcome) -> anyhow::Result<()> {
    for note in &outcome.notes {
        tell!("bigiron: {note}");
    }
    for failure in &outcome.failed {
        let meaning = failure.meaning.map(|meaning| format!(" ({meaning})"));
        let meaning = meaning.unwrap_or_default();
        tell!("bigiron: CPU {}: {}{meaning}", failure.cpu, failure.error);
    }
    match arguments.json {
        true => answer(plan, Some(outcome))?,
        false => print(&summary(plan, outcome))?,
    }
    if let Some(error) = &outcome.settings_error {
        bail!("{error}");
    }
    if outcome.is_interrupted {
        let list = |list: String| match list.is_empty() {
            true => "none".to_owned(),
            false => format!("CPUs {list}"),
        };
        return Err(signals::HotplugInterrupted {
            done: list(outcome.done.to_string()),
            left: list(outcome.left.to_string()),
        }
        .into());
    }
    if !outcome.failed.is_empty() {
        let state = state(plan.direction);
        let all = outcome.failed.len() + outcome.took.len();
        bail!("{} of {all} CPUs did not go {state}", outcome.failed.len());
    }
    if let Some(error) = &outcome.control_error {
        bail!("smt/control: {error}");
    }
    Ok(())
}

fn summary(plan: &Plan, outcome: &Outcome) -> String {
    let state = state(plan.direction);
    let mut out = String::new();
    if !plan.already.is_empty() {
        let _ = writeln!(out, "{}", already(plan));
    }
    if !outcome.done.is_empty() {
        let count = outcome.took.len();
        let _ = writeln!(
            out,
            "{} {state} now: {count} in {:.2} s, {:.1} per second",
            are(&outcome.done),
            outcome.seconds,
            count as f64 / outcome.seconds.max(1e-9)
        );
        if count > 1 {
            out += &histogram(&outcome.took);
        }
    }
    out
}
