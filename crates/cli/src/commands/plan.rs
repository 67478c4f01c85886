//! `bigiron plan`: judges the next crash dump of the running machine.

use std::path::PathBuf;
use std::process::ExitCode;

use bigiron_dump::Format;
use bigiron_helpers::processor_count;
use bigiron_kernel::{DumpLevel, RUNNING_KERNEL};
use clap::Args;

use crate::arguments::threads;
use crate::plan::estimate::Estimates;
use crate::plan::kit::{HowToDump, Kit, usual_formats};
use crate::plan::report::Report;
use crate::plan::{
    CaptureKernel, Checked, Root, Target, check, estimate_memory, measure_disk, rehearse,
};
use crate::tell::{print, tell};
use crate::{signals, size};

/// Exit code: the plan was not made.
pub const CANNOT_JUDGE: u8 = 3;

/// `bigiron plan`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct PlanArguments {
    /// Where the capture kernel writes: a directory, or a disk or partition [default: by the
    /// settings of bigiron or the distribution]
    pub target: Option<PathBuf>,
    /// Options of `bigiron dump` to plan for, in one word [default: by the same settings]
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub options: Option<String>,
    /// Write to the directory for up to two seconds, at most 256 MiB, to measure its speed
    #[arg(long, conflicts_with = "write_speed")]
    pub try_disk: bool,
    /// Bytes per second that the capture kernel's disk or network takes, such as 500M
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub write_speed: Option<u64>,
    /// CPUs of the capture kernel [default: nr_cpus= of the settings, or 1]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub capture_cpus: Option<u16>,
    /// Check only the settings; read no memory
    #[arg(long)]
    pub no_estimate: bool,
    /// Unpack the capture kernel's initramfs into a temporary directory, and dump the running kernel
    /// there, to /dev/null
    #[arg(long)]
    pub rehearse: bool,
    /// Helper threads for the estimate [default: one per CPU]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Directory that has boot, etc, proc, sys and dev
    #[arg(long, value_name = "DIR", default_value = "/", hide_short_help = true)]
    pub root: PathBuf,
    /// Memory to estimate by
    #[arg(long, value_name = "FILE", default_value = RUNNING_KERNEL, hide_short_help = true)]
    pub memory: PathBuf,
}

const HELP: &str = "\
Nothing is changed; only --try-disk and --rehearse write files, which they remove. The estimates read the struct pages of \
all memory, and some hundred MiB of the pages that each dump would have; this requires root. The first \
estimate is that of the settings; room and reservations are judged by it.

Exit status, as monitoring systems expect it: 0 all is well; 1 warnings: some crashes leave no dump, or \
the dump may fail; 2 failures: there will be no dump (or the command line is invalid); 3 the plan \
cannot be made.

Examples:
  bigiron plan
  bigiron plan --try-disk /var/crash
  bigiron plan --rehearse
  bigiron plan --options '-d 1,31 -f vmdump' /dev/disk/by-partlabel/crash
  bigiron plan --no-estimate --json | jq .verdict";

/// Makes the plan and prints it.
pub fn run(arguments: &PlanArguments) -> anyhow::Result<ExitCode> {
    let root = Root::new(&arguments.root);
    let mut kit = Kit::read(&root);
    if let Some(options) = &arguments.options {
        kit.origin = "--options";
        kit.how = HowToDump::of_dump(options);
    }
    let target = Target::new(arguments.target.clone(), &kit, &root);
    let estimates = match arguments.no_estimate {
        true => Err("--no-estimate".to_owned()),
        false => {
            make_estimates(arguments, &kit, &root, &target).map_err(|error| format!("{error:#}"))
        }
    };
    if signals::received() {
        anyhow::bail!("interrupted");
    }
    let mut lines = check(&Checked {
        root: &root,
        kit: &kit,
        target: &target,
        estimates: estimates.as_ref().ok(),
    });
    if arguments.rehearse {
        lines.extend(rehearse(&root, &kit, &arguments.memory));
    }
    let is_missing = estimates.is_err() && !arguments.no_estimate;
    let report = Report::new(lines, estimates);
    for warning in report.estimates.iter().flat_map(|found| &found.warnings) {
        tell!("bigiron: warning: {warning}");
    }
    print(&match arguments.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => report.text(),
    })?;
    let code = match report.verdict.exit_code() {
        0 | 1 if is_missing => CANNOT_JUDGE,
        code => code,
    };
    Ok(ExitCode::from(code))
}

fn make_estimates(
    arguments: &PlanArguments,
    kit: &Kit,
    root: &Root,
    target: &Target,
) -> anyhow::Result<Estimates> {
    let measured = match arguments.try_disk {
        true => Some(measure_disk(&root.path(target.directory()))?),
        false => arguments.write_speed.map(|speed| speed as f64),
    };
    let how = kit.how.clone().unwrap_or_default();
    let capture = CaptureKernel {
        cpus: capture_cpus(arguments, kit, &how),
        write_speed: measured,
    };
    let threads = threads(arguments.threads);
    estimate_memory(root, &arguments.memory, threads, capture, &wanted(&how))
}

/// CPUs that dump: those of the capture kernel, but not more than this machine has or the options
/// allow.
fn capture_cpus(arguments: &PlanArguments, kit: &Kit, how: &HowToDump) -> usize {
    let given = arguments.capture_cpus.map(usize::from);
    let cpus = given.or_else(|| kit.capture_cpus()).unwrap_or(1);
    let most = how.threads.map_or(usize::MAX, usize::from);
    cpus.min(most).min(processor_count()).max(1)
}

/// The dumps to estimate: that of the settings first, then the usual ones.
fn wanted(how: &HowToDump) -> Vec<(DumpLevel, Format)> {
    let mut wanted: Vec<_> = how
        .levels
        .iter()
        .map(|level| (*level, how.format))
        .collect();
    for level in [1, 31].into_iter().filter_map(DumpLevel::new) {
        wanted.extend(usual_formats().map(|format| (level, format)));
    }
    let mut seen = Vec::new();
    wanted.retain(|dump| {
        let is_new = !seen.contains(dump);
        seen.push(*dump);
        is_new
    });
    wanted
}
