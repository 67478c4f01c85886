//! Finding: a stack that was used up.
//!
//! Relies on the kernel's report of a hit guard page (arch/x86/kernel/traps.c; arm64:
//! "Insufficient stack space to handle exception!").

use std::collections::HashMap;

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
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
    let is_message = |line: &str| MESSAGES.iter().any(|known| line.contains(known));
    let Some(report) = evidence.log().last_report(is_message) else {
        return Ok(Vec::new());
    };
    let message = report.first().copied().unwrap_or("");
    let mut times: HashMap<&str, usize> = HashMap::new();
    for line in &report {
        let call = line.trim();
        if call.contains("+0x") && !call.starts_with('?') && !call.contains(':') {
            *times.entry(call).or_default() += 1;
        }
    }
    let most = times
        .into_iter()
        .max_by_key(|(call, times)| (*times, *call));
    let (title, reason) = match most {
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
