//! `bigiron cpu tune apply`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use bigiron_cpu::CpuList;
use bigiron_cpu::source::Chains;
use bigiron_cpu::tune::{Change, Plan, Rules, TuneError, Tuner, plan};
use clap::Args;

use super::system::{read_rules, running_kernel, tuner};
use crate::tell::{print, tell};

/// Time to wait for another command that changes sched/verbose.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of failures reported individually.
const MAX_REPORTED: usize = 20;

/// `bigiron cpu tune apply`.
#[derive(Debug, Args)]
pub struct ApplyArguments {
    /// File of rules, as written by `save`
    file: PathBuf,
    /// Print the changes, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Applies the rules of the file.
pub fn run(arguments: &ApplyArguments) -> anyhow::Result<()> {
    let rules = read_rules(&arguments.file)?;
    let running = running_kernel()?;
    let plan = plan(&rules, &running)?;
    for gone in &plan.gone {
        tell!("bigiron: warning: {gone}");
    }
    if arguments.dry_run {
        let summary = summary(
            &plan.changes.iter().collect::<Vec<_>>(),
            &plan,
            "would change",
        );
        return print(&summary);
    }
    let tuner = tuner(LOCK_TIMEOUT, "bigiron cpu tune apply");
    let results = tuner.write(&running, &plan.changes)?;
    let (done, failed) = parted(&plan.changes, results);
    print(&summary(&done, &plan, "changed"))?;
    print_failures(&failed);
    match failed.len() {
        0 => Ok(()),
        count => bail!("{count} of {} values were not set", plan.changes.len()),
    }
}

/// Result of applying rules again.
pub(super) struct Applied {
    /// Description of the changes for the user; empty if there are none.
    pub(super) text: String,
    /// Reason why a value was not set.
    pub(super) failure: Option<String>,
}

/// Applies rules to the current domains.
pub(super) fn again(rules: &Rules, chains: &dyn Chains, tuner: &Tuner) -> Applied {
    let failed = |failure: String| Applied {
        text: String::new(),
        failure: Some(failure),
    };
    let plan = match plan(rules, chains) {
        Ok(plan) => plan,
        Err(error) => return failed(error.to_string()),
    };
    let results = match tuner.write(chains, &plan.changes) {
        Ok(results) => results,
        Err(error) => return failed(error.to_string()),
    };
    let (done, failures) = parted(&plan.changes, results);
    Applied {
        text: match done.is_empty() {
            true => String::new(),
            false => summary(&done, &plan, "changed"),
        },
        failure: failures.first().map(|error| error.to_string()),
    }
}

fn parted(
    changes: &[Change],
    results: Vec<Result<(), TuneError>>,
) -> (Vec<&Change>, Vec<TuneError>) {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (change, result) in changes.iter().zip(results) {
        match result {
            Ok(()) => done.push(change),
            Err(error) => failed.push(error),
        }
    }
    (done, failed)
}

fn print_failures(failed: &[TuneError]) {
    for error in failed.iter().take(MAX_REPORTED) {
        tell!("bigiron: {error}");
    }
    if failed.len() > MAX_REPORTED {
        tell!("bigiron: and {} more", failed.len() - MAX_REPORTED);
    }
}

/// Returns one line per kind of change, and a total.
fn summary(changes: &[&Change], plan: &Plan, verb: &str) -> String {
    let mut kinds: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for change in changes {
        let name = change.name.clone();
        let name = name.unwrap_or_else(|| format!("domain{}", change.number));
        let kind = (name, change.tunable, change.before, change.value);
        kinds.entry(kind).or_default().push(change.cpu);
    }
    let mut out = String::new();
    for ((name, tunable, before, value), cpus) in kinds {
        let cpus: CpuList = cpus.into_iter().collect();
        let before = before.map_or_else(|| "unknown".into(), |before| before.to_string());
        let tunable = tunable.name();
        let _ = writeln!(out, "{name} {tunable}: {before} -> {value}  CPUs {cpus}");
    }
    let (count, already) = (changes.len(), plan.already);
    let _ = writeln!(out, "{count} values {verb}, {already} unchanged");
    out
}
