//! Finding: an element of a list was used after it was removed: its links have the values that
//! the kernel then gives them.
//!
//! Relies on the kernel's report of the fault in its log, and on LIST_POISON1 and LIST_POISON2
//! (include/linux/poison.h) with CONFIG_ILLEGAL_POINTER_VALUE of 64-bit machines.

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
use crate::error::InspectError;

/// Kind.
pub const KIND: &str = "list-poison";
/// LIST_POISON1. LIST_POISON2 is 0x22 bytes behind it; 0x100 before 4.16 (commit 8a5e5e02fc83).
const POISON: u64 = 0xdead_0000_0000_0100;

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let Some(fault) = evidence.fault() else {
        return Ok(Vec::new());
    };
    let Some((what, value)) = fault.near(POISON) else {
        return Ok(Vec::new());
    };
    let title = format!(
        "{} used an element of a list that was removed from it: {what} is {value:#x}",
        fault.place()
    );
    let mut finding = Finding::new(KIND, 94, Sure::Certain, title)
        .because("list_del sets next to 0xdead000000000100 and prev to 0xdead000000000122");
    if let Ok(slabs) = evidence.slab_objects() {
        for (register, object) in fault.objects(&slabs) {
            finding = finding
                .because(format!("{register} points to the {object}"))
                .place(evidence.program, "object", object.start);
        }
    }
    Ok(vec![fault.describe(evidence.program, finding)])
}
