//! Finding: any fault of the kernel that no other finding explains.
//!
//! Relies on the kernel's report of the fault in its log.

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
use super::{
    bad_page, flipped_bit, list_corruption, list_poison, null_pointer, slab_report, stack_overflow,
    use_after_free,
};
use crate::error::InspectError;

/// Kinds.
pub const KIND: &str = "bad-address";
const BUG: &str = "kernel-bug";
/// Findings that explain a fault. They are searched for before this one.
const OTHERS: [&str; 8] = [
    bad_page::KIND,
    stack_overflow::KIND,
    slab_report::KIND,
    list_corruption::KIND,
    use_after_free::KIND,
    list_poison::KIND,
    flipped_bit::KIND,
    null_pointer::KIND,
];

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let Some(fault) = evidence.fault() else {
        return Ok(Vec::new());
    };
    if OTHERS.iter().any(|name| evidence.found.contains(name)) {
        return Ok(Vec::new());
    }
    let place = fault.place();
    let is_bug =
        fault.message.starts_with("kernel BUG at ") || fault.message.starts_with("Kernel BUG");
    let finding = match (fault.address, is_bug) {
        (_, true) => {
            let caller = match fault.trace.first() {
                Some(caller) => format!(", called by {caller}"),
                None => String::new(),
            };
            let title = format!("an assertion of the kernel failed in {place}{caller}");
            Finding::new(BUG, 85, Sure::Certain, title)
        }
        (Some(address), _) => {
            let title = format!("{place} accessed {address:#x}, which it may not");
            Finding::new(KIND, 75, Sure::Certain, title)
        }
        (None, _) => {
            let title = format!("the kernel stopped in {place}: {}", fault.message);
            Finding::new(KIND, 70, Sure::Certain, title)
        }
    };
    Ok(vec![fault.describe(evidence.program, finding)])
}
