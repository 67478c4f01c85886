//! Finding: a slab object that was freed twice, or written where it does not belong, which the
//! kernel noticed.
//!
//! Relies on the messages of slub_debug (mm/slub.c), and on the check of CONFIG_SLAB_FREELIST_HARDENED
//! for objects that are freed twice in a row.

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
use super::log::calls;
use crate::error::InspectError;

/// Kinds.
pub const KIND: &str = "slab-corruption";
const DOUBLE_FREE: &str = "double-free";
/// Words of a double free.
const FREED_TWICE: [&str; 3] = ["already free", "are to be freed", "Double free"];
/// Beginnings of functions of the allocator.
const ALLOCATOR: [&str; 8] = [
    "slab_",
    "__slab",
    "free_",
    "check_",
    "object_err",
    "kmem_cache_free",
    "kfree",
    "__kmem_cache",
];
/// Lines of a report that tell more.
const FACTS: [&str; 3] = ["Allocated in ", "Freed in ", "First byte "];

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let log = evidence.log();
    if let Some(report) = log.last_report(|line| message(line).is_some()) {
        return Ok(vec![of_report(&report)]);
    }
    let is_hardened = |fault: &&super::fault::Fault| {
        fault.message.starts_with("kernel BUG at mm/slub.c")
            && fault.trace.iter().any(|call| call.contains("free"))
    };
    let Some(fault) = evidence.fault().filter(is_hardened) else {
        return Ok(Vec::new());
    };
    let own = fault.trace.iter().find(|call| is_own(call));
    let title = format!(
        "{} freed an object twice in a row",
        own.map_or("an unknown function", String::as_str)
    );
    let finding = Finding::new(DOUBLE_FREE, 95, Sure::Likely, title)
        .because("the allocator refuses to put an object behind itself in the list of free ones");
    Ok(vec![fault.describe(evidence.program, finding)])
}

/// Returns cache and problem of the first line of a report, `BUG dentry (Not tainted): Redzone
/// overwritten`.
fn message(line: &str) -> Option<(&str, &str)> {
    let (cache, rest) = line.strip_prefix("BUG ")?.split_once(" (")?;
    let (_, problem) = rest.split_once("): ")?;
    (!cache.contains(' ')).then_some((cache, problem))
}

fn is_own(call: &str) -> bool {
    !ALLOCATOR.iter().any(|known| call.starts_with(known))
}

fn of_report(report: &[&str]) -> Finding {
    let (cache, problem) = report
        .first()
        .and_then(|line| message(line))
        .unwrap_or(("", ""));
    let calls = calls(report);
    let own = calls.iter().find(|call| is_own(call));
    let place = own.map_or("an unknown function", String::as_str);
    let is_double = FREED_TWICE.iter().any(|word| problem.contains(word));
    let (kind, title) = match is_double {
        true => (
            DOUBLE_FREE,
            format!("{place} freed an object of the slab cache {cache} that was free: {problem}"),
        ),
        false => (
            KIND,
            format!(
                "an object of the slab cache {cache} is corrupted, as {place} noticed: {problem}"
            ),
        ),
    };
    let mut finding = Finding::new(kind, 93, Sure::Certain, title);
    let facts = report.iter().skip(1);
    for fact in facts
        .filter(|line| FACTS.iter().any(|known| line.contains(known)))
        .take(4)
    {
        finding = finding.because(format!("the log: {fact}"));
    }
    finding = finding.called_by(&calls);
    finding.more("bigiron dmesg DUMP")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_slub_are_known_by_their_first_line() {
        let line = "BUG faults_things (Tainted: G        W  OE     ): Right Redzone overwritten";
        assert_eq!(
            message(line),
            Some(("faults_things", "Right Redzone overwritten"))
        );
        assert_eq!(
            message("BUG: kernel NULL pointer dereference, address: 0"),
            None
        );
        assert_eq!(message("BUG at x (y): z"), None);
    }
}
