//! Finding: any fault of the kernel that no other finding explains.
//!
//! Relies on the kernel's report of the fault in its log.

use super::evidence::{Evidence, Find};
use super::finding::{Finding, Sure};
use super::{
    flipped_bit, list_corruption, list_poison, null_pointer, slab_report, stack_overflow,
    use_after_free,
};
use crate::error::InspectError;

/// Kinds.
pub const KIND: &str = "bad-address";
const BUG: &str = "kernel-bug";
/// Findings that explain a fault.
const OTHERS: [Find; 7] = [
    stack_overflow::find,
    slab_report::find,
    list_corruption::find,
    use_after_free::find,
    list_poison::find,
    flipped_bit::find,
    null_pointer::find,
];

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let Some(fault) = evidence.fault() else {
        return Ok(Vec::new());
    };
    let explains = |find: &Find| find(evidence).is_ok_and(|findings| !findings.is_empty());
    if OTHERS.iter().any(explains) {
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
