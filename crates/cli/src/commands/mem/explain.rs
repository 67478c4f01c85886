//! `bigiron mem explain`: which operations can be faster on this machine, and what prevents it.

use std::fmt::Write as _;
use std::process::ExitCode;

use bigiron_memory::explain::{Explanation, Verdict};

use crate::arguments::memory::ExplainArguments;
use crate::size;
use crate::summary;

/// Prints the explanation.
pub fn run(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().ok();
    let explanation = Explanation::find(program.as_deref());
    let text = if arguments.json {
        serde_json::to_string_pretty(&explanation)?
    } else {
        describe(&explanation)
    };
    summary::print(&text, false)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(Explanation { facts, steps }: &Explanation) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use bigiron_memory::explain::{Facts, Stage};

    #[test]
    fn each_change_has_a_line() {
        let text = describe(&Explanation {
            facts: Facts::default(),
            steps: vec![Stage {
                step: "lock",
                verdict: Verdict::Partly,
                why: "of two reasons".to_owned(),
                change: vec!["this".to_owned(), "or that".to_owned()],
            }],
        });
        let lines: Vec<&str> = text.lines().skip(2).map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "lock                         partly  of two reasons",
                "to change it: this",
                "to change it: or that"
            ]
        );
    }
}
