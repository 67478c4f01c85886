//! `bigiron rules`: checks rules for pages.

use std::fmt::Write as _;
use std::path::PathBuf;

use bigiron_kernel::rules::{Rules, resolve};
use bigiron_kernel::{Kernel, RUNNING_KERNEL};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::arguments::SourceArguments;
use crate::tell::print;
use crate::{rules, size, source};

/// `bigiron rules`.
#[derive(Debug, Args)]
pub struct RulesArguments {
    #[command(subcommand)]
    command: RulesCommand,
}

/// A command about rules.
#[derive(Debug, Subcommand)]
enum RulesCommand {
    /// Check a file of rules, also by a dump or the running kernel: whether the symbols and types
    /// are there, how many pages each rule names, and how long finding them takes
    #[command(after_long_help = HELP)]
    Check(CheckArguments),
}

/// `bigiron rules check`.
#[derive(Debug, Args)]
struct CheckArguments {
    /// The rules
    file: PathBuf,
    /// A dump of the kernel that they are for, in any format; parts of a split or striped one
    /// as A,B,C
    dump: Option<PathBuf>,
    /// Check them by the running kernel
    #[arg(long, conflicts_with = "dump")]
    live: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Options for reading the source.
    #[command(flatten)]
    source: SourceArguments,
}

const HELP: &str = "\
docs/rules.md describes the file. Exit status: 0 all rules can be resolved; 1 the file is wrong, or a \
rule cannot be resolved.

Examples:
  bigiron rules check /etc/bigiron/rules.toml
  bigiron rules check /etc/bigiron/rules.toml --live
  bigiron rules check rules.toml vmcore --json";

/// What is known about a rule.
#[derive(Serialize)]
struct Row {
    name: String,
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Checks the rules and prints a line for each.
pub fn run(arguments: &RulesArguments) -> anyhow::Result<()> {
    let RulesCommand::Check(arguments) = &arguments.command;
    let found = rules::read(&arguments.file)?;
    let dump = match arguments.live {
        true => Some(PathBuf::from(RUNNING_KERNEL)),
        false => arguments.dump.clone(),
    };
    let Some(dump) = dump else {
        return show(arguments, &unresolved(&found), 0);
    };
    let dump = source::parts_of(&dump);
    source::with_kernel(&dump, &arguments.source, |kernel| {
        let page_size = 1 << kernel.source().page_shift();
        show(arguments, &resolved(&found, kernel), page_size)
    })
}

fn unresolved(rules: &Rules) -> Vec<Row> {
    let rows = rules.as_slice().iter().map(|rule| Row {
        name: rule.name.clone(),
        action: rule.action.name(),
        pages: None,
        seconds: None,
        problem: None,
    });
    rows.collect()
}

fn resolved(rules: &Rules, kernel: &Kernel) -> Vec<Row> {
    let resolved = resolve(rules, kernel);
    let rows = resolved.as_slice().iter().map(|rule| Row {
        name: rule.name.clone(),
        action: rule.action.name(),
        pages: Some(rule.frames.len()),
        seconds: Some(rule.time.as_secs_f64()),
        problem: rule.problem.clone(),
    });
    rows.collect()
}

fn show(arguments: &CheckArguments, rows: &[Row], page_size: u64) -> anyhow::Result<()> {
    let mut text = String::new();
    if arguments.json {
        text = serde_json::to_string_pretty(rows)?;
        text.push('\n');
    } else {
        for row in rows {
            let _ = write!(text, "{:5} {:40}", row.action, row.name);
            if let (Some(pages), Some(seconds)) = (row.pages, row.seconds) {
                let (bytes, pages) = (size::format(pages * page_size), size::group(pages));
                let _ = write!(text, " {pages:>12} pages {bytes:>11} {seconds:>8.3} s");
            }
            let _ = match &row.problem {
                Some(problem) => writeln!(text, "\n      {problem}"),
                None => writeln!(text),
            };
        }
    }
    print(&text)?;
    let wrong = rows.iter().filter(|row| row.problem.is_some()).count();
    anyhow::ensure!(
        wrong == 0,
        "{wrong} of {} rules cannot be resolved, or only in part",
        rows.len()
    );
    Ok(())
}
