//! Finding: a counter of references that was put more often than taken, or taken too often, which
//! the kernel noticed.
//!
//! Relies on the messages of refcount_warn_saturate (lib/refcount.c), which sets such a counter to
//! REFCOUNT_SATURATED (include/linux/refcount.h); the object is found by the registers that the
//! kernel printed.

use bigiron_format::VirtAddr;

use super::evidence::Evidence;
use super::fault::registers;
use super::finding::{Finding, Sure};
use super::log::calls;
use crate::error::InspectError;
use crate::slab_object::SlabObject;

/// Kind.
pub const KIND: &str = "refcount";
/// Before each message.
const MESSAGE: &str = "refcount_t: ";
/// INT_MIN / 2. Others that still count move it by a little.
const SATURATED: u32 = 0xc000_0000;
const NEAR: u32 = 1 << 16;
/// Bytes of an object that are searched for the counter.
const MAX_OBJECT: u64 = 4096;
/// Calls shown.
const SHOWN: usize = 8;

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let log = evidence.log();
    let Some(report) = log.last_report(|line| line.starts_with(MESSAGE)) else {
        return Ok(Vec::new());
    };
    let message = report.first().copied().unwrap_or("");
    let calls = calls(&report);
    let own = calls.iter().find(|call| !call.starts_with("refcount_"));
    let place = own.map_or("an unknown function", String::as_str);
    let panic = log.crash.panic.as_ref();
    let panicked = panic.is_some_and(|panic| panic.message.contains("panic_on_warn"));
    let weight = if panicked { 93 } else { 58 };
    let title = format!("a counter of references is wrong, as {place} noticed: {message}");
    let mut finding = Finding::new(KIND, weight, Sure::Certain, title);
    if let Some((object, offset)) = object(evidence, &report) {
        let start = object.start;
        finding = finding
            .because(format!(
                "the counter is in the {object}, at offset {offset}, by the registers"
            ))
            .place(evidence.program, "the object", start);
    }
    finding = finding.called_by(calls.iter().take(SHOWN));
    Ok(vec![finding.more("bigiron dmesg DUMP")])
}

/// Finds the slab object that a register points into and that has a saturated counter, and the
/// counter's offset in it: at the register itself, else the first in the object.
fn object(evidence: &Evidence, report: &[&str]) -> Option<(SlabObject, u64)> {
    let slabs = evidence.slab_objects().ok()?;
    let is_saturated = |at: u64| {
        let value = evidence.program.number(VirtAddr(at), 4);
        value.is_ok_and(|value| (value as u32).abs_diff(SATURATED) < NEAR)
    };
    let pointers: Vec<u64> = registers(report)
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    let direct = pointers.iter().copied().filter(|at| is_saturated(*at));
    for at in direct {
        if let Some(object) = slabs.at(VirtAddr(at)) {
            let offset = at.saturating_sub(object.start.0);
            return Some((object, offset));
        }
    }
    for at in pointers {
        let Some(object) = slabs.at(VirtAddr(at)) else {
            continue;
        };
        let mut offsets = (0..object.size.min(MAX_OBJECT)).step_by(4);
        let offset = offsets.find(|offset| is_saturated(object.start.0.wrapping_add(*offset)));
        if let Some(offset) = offset {
            return Some((object, offset));
        }
    }
    None
}
