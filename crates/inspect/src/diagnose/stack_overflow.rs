//! Finding: a stack that was used up.
//!
//! Relies on the kernel's report of a hit guard page (arch/x86/kernel/traps.c; arm64:
//! "Insufficient stack space to handle exception!").

use std::collections::HashMap;

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
use super::log::LogLines;
use crate::error::InspectError;

/// Kind.
pub const KIND: &str = "stack-overflow";
/// Parts of the messages.
const MESSAGES: [&str; 3] = [
    "stack guard page was hit",
    "kernel stack overflow",
    "Insufficient stack space to handle exception",
];

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let Some(report) = report(evidence.log()) else {
        return Ok(Vec::new());
    };
    let message = report.first().copied().unwrap_or("");
    let (title, reason) = match most_frequent(&report) {
        Some((call, times)) if times > 2 => (
            format!("the stack is used up by the recursion of {call}"),
            Some(format!("it is {times} times in the call trace")),
        ),
        _ => ("a stack is used up".to_owned(), None),
    };
    let finding = Finding::new(KIND, 96, Sure::Certain, title)
        .because(format!("the log: {message}"))
        .because_of(reason);
    Ok(vec![match evidence.fault() {
        Some(fault) => fault.describe(evidence.program, finding),
        None => finding,
    }])
}

/// The report of a stack that was used up. The panic that follows it says so again, after the call
/// trace (arm64's panic_bad_stack(), arch/arm64/kernel/traps.c); it counts only without a report.
fn report(log: &LogLines) -> Option<Vec<&str>> {
    let is_message = |line: &str| MESSAGES.iter().any(|known| line.contains(known));
    let is_panic = |line: &str| line.contains("Kernel panic");
    log.last_report(|line| is_message(line) && !is_panic(line))
        .or_else(|| log.last_report(|line| is_message(line) && !line.starts_with("---[ end")))
}

/// The call that is most often in a report, and how often.
fn most_frequent<'a>(report: &[&'a str]) -> Option<(&'a str, usize)> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    for line in report {
        let call = line.trim();
        if call.contains("+0x") && !call.starts_with('?') && !call.contains(':') {
            *times.entry(call).or_default() += 1;
        }
    }
    times
        .into_iter()
        .max_by_key(|(call, times)| (*times, *call))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_begins_before_the_panic() {
        let arm64 = [
            "Insufficient stack space to handle exception!",
            "pc : recurse+0x18/0x98 [faults]",
            "Kernel panic - not syncing: kernel stack overflow",
            "Call trace:",
            " __bad_stack+0x78/0x80",
            " recurse+0x18/0x98 [faults]",
            " recurse+0x50/0x98 [faults]",
            " recurse+0x50/0x98 [faults]",
            " recurse+0x50/0x98 [faults]",
            " kthread+0xec/0xf8",
            "---[ end Kernel panic - not syncing: kernel stack overflow ]---",
        ];
        let log = LogLines::of_lines(&arm64);
        let found = report(&log).unwrap();
        assert_eq!(found, arm64);
        assert_eq!(
            most_frequent(&found),
            Some(("recurse+0x50/0x98 [faults]", 3))
        );
        let lost = LogLines::of_lines(&arm64[2..]);
        assert_eq!(report(&lost).unwrap(), arm64[2..]);
        assert_eq!(report(&LogLines::of_lines(&arm64[3..10])), None);
    }
}
