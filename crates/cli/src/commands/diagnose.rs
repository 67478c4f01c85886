//! `bigiron diagnose`: why a machine stopped, with the evidence.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

use bigiron_helpers::Stop;
use bigiron_inspect::diagnose::WEIGHTY;
use bigiron_inspect::{Diagnosis, Finding, Program, SourceLines};
use clap::Args;

use crate::arguments::SourceArguments;
use crate::debug_info::DebugInfoArguments;
use crate::sandbox::Needs;
use crate::source::Reading;
use crate::tell::{on_one_line, print};
use crate::timeout;

/// Seconds after which the search ends, without `--timeout`.
const SECONDS: NonZeroU32 = NonZeroU32::new(60).unwrap();
/// The same with `--debuginfod`: debug information of a kernel has hundreds of megabytes.
const SECONDS_WITH_SERVERS: NonZeroU32 = NonZeroU32::new(600).unwrap();

/// `bigiron diagnose`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct DiagnoseArguments {
    /// The dump, in any format; all parts of a split or striped one, or - for standard input
    #[arg(required = true)]
    dump: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where source lines come from.
    #[command(flatten)]
    debug_info: DebugInfoArguments,
    /// Options for reading the source.
    #[command(flatten)]
    source: SourceArguments,
}

const HELP: &str = "\
Each finding says what was found, where, how sure it is and why, and which command shows more; the weightiest comes \
first. Only what is in the dump counts: if that explains nothing, nothing is found. No debug symbols are needed, and a \
dump of level 31 suffices.

The source line of the instruction that failed comes from debug information, if that is found by build id: in \
--debug-info, /usr/lib/debug, /boot, /lib/modules and debuginfod's cache.

Without --timeout, the search ends after 60 seconds, or 600 with --debuginfod. What was found until then is printed, and the exit status is 124.

Examples:
  bigiron diagnose vmcore
  bigiron diagnose --debug-info ./vmlinux vmcore
  bigiron diagnose --json vmcore | jq '.findings[0]'";

/// Searches a dump, and prints what was found.
pub fn run(arguments: &DiagnoseArguments) -> anyhow::Result<ExitCode> {
    let mut options = arguments.source.clone();
    let seconds = match arguments.debug_info.asks_servers() {
        true => SECONDS_WITH_SERVERS,
        false => SECONDS,
    };
    options.reader.time.timeout.get_or_insert(seconds);
    let stop = Stop::new();
    let debug_files = arguments.debug_info.start(&stop)?;
    let opened = Reading::open(&arguments.dump, &options)?.parse(&Needs::Nothing)?;
    timeout::stop_with(&stop);
    opened.with_kernel(|kernel| {
        let program = Program::open(kernel)?;
        let mut found = Diagnosis::of(&program, &stop);
        found.add_source_lines(&program, &SourceLines::new(&debug_files), &stop);
        print(&match arguments.json {
            true => serde_json::to_string_pretty(&found.told())? + "\n",
            false => text(&found, arguments.debug_info.is_given()),
        })?;
        Ok(match found.complete {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(timeout::TIMED_OUT),
        })
    })
}

/// Formats the findings; with `asked`, why source lines are missing as well.
fn text(found: &Diagnosis, asked: bool) -> String {
    let mut lines = Vec::new();
    if !found.is_weighty() {
        lines.push("nothing found that explains why the machine stopped".to_owned());
    }
    for (number, finding) in (1..).zip(&found.findings) {
        show(number, finding, &mut lines);
    }
    for left_out in &found.left_out {
        lines.push(format!(
            "not shown: {} more findings of the kind {}",
            left_out.count, left_out.finding
        ));
    }
    for skipped in &found.skipped {
        lines.push(format!(
            "not searched for: {}: {}",
            skipped.finding, skipped.reason
        ));
    }
    let reasons = found.no_source.iter().filter(|_| asked);
    lines.extend(reasons.map(|reason| format!("no source line: {reason}")));
    if !found.complete {
        lines.push("the time ran out before the end of the search".into());
    }
    let lines: Vec<_> = lines.iter().map(|line| on_one_line(line)).collect();
    lines.join("\n") + "\n"
}

fn show(number: usize, finding: &Finding, lines: &mut Vec<String>) {
    let remark = match finding.weight >= WEIGHTY {
        true => "",
        false => ", a remark",
    };
    lines.push(format!(
        "{number}. {}: {} ({}, weight {}{remark})",
        finding.kind,
        finding.title,
        finding.sure.word(),
        finding.weight
    ));
    let because = finding.because.iter();
    lines.extend(because.map(|reason| format!("   because {reason}")));
    if !finding.cpus.is_empty() {
        let cpus: Vec<String> = finding.cpus.iter().map(ToString::to_string).collect();
        lines.push(format!("   CPU     {}", cpus.join(", ")));
    }
    let source = finding.source.iter();
    lines.extend(source.map(|line| format!("   source  {line}")));
    let tasks = finding.tasks.iter();
    lines.extend(
        tasks.map(|task| format!("   task    {task}, {}, at {}", task.state, task.address)),
    );
    lines.extend(finding.places.iter().map(|place| match &place.symbol {
        Some(symbol) => format!("   where   {} {} at {}", place.what, symbol, place.address),
        None => format!("   where   {} at {}", place.what, place.address),
    }));
    let more = finding.more.iter();
    lines.extend(more.map(|command| format!("   more    {command}")));
    lines.push(String::new());
}
