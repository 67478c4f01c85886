//! `bigiron mem explain`: what can be faster here, and what stands in the way.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;

use super::facts::Facts;
use super::steps::{Step, Verdict, steps};
use crate::arguments::memory::ExplainArguments;
use crate::commands::summary;
use crate::size;

#[derive(Serialize)]
struct Report {
    facts: Facts,
    steps: Vec<Step>,
}

/// Prints it.
pub fn run(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    let facts = Facts::find();
    let steps = steps(&facts);
    let text = if arguments.json {
        serde_json::to_string_pretty(&Report { facts, steps })?
    } else {
        describe(&facts, &steps)
    };
    summary::print(&text, false)?;
    Ok(ExitCode::SUCCESS)
}

/// Both as text.
pub fn describe(facts: &Facts, steps: &[Step]) -> String {
    let mut text = format!(
        "Linux {}, {} of {} processors, {} {}, {} of memory free, pages of {}\n",
        facts.kernel,
        facts.processors,
        facts.processors_online,
        facts.nodes,
        if facts.nodes == 1 { "node" } else { "nodes" },
        size::format(facts.available_bytes),
        size::format(facts.page_size),
    );
    for step in steps {
        let verdict = match step.verdict {
            Verdict::Faster => "faster",
            Verdict::Partly => "partly",
            Verdict::Plain => "plain",
        };
        let _ = write!(text, "\n{:28} {verdict:7} {}\n", step.step, step.why);
        for change in &step.change {
            let _ = writeln!(text, "{:36} to change it: {change}", "");
        }
    }
    text
}
