//! Finding: a pointer out of memory that was freed: it has the pattern that fills such memory.
//!
//! Relies on the kernel's report of the fault in its log, on POISON_FREE and POISON_INUSE
//! (include/linux/poison.h), with which slub_debug=P fills objects, and on slabs (`slab_object`).

use super::evidence::Evidence;
use super::fault::Fault;
use super::finding::{Finding, Sure};
use crate::error::InspectError;
use crate::slab_object::SlabObject;

/// Kinds.
pub const KIND: &str = "use-after-free";
const UNINITIALIZED: &str = "uninitialized";
/// A word of POISON_FREE, and of POISON_INUSE.
const FREED: u64 = 0x6b6b_6b6b_6b6b_6b6b;
const IN_USE: u64 = 0x5a5a_5a5a_5a5a_5a5a;
/// Bytes of an object that are looked at.
const MAX_BYTES: u64 = 4096;

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let Some(fault) = evidence.fault() else {
        return Ok(Vec::new());
    };
    let patterns = [
        (KIND, FREED, "was freed"),
        (UNINITIALIZED, IN_USE, "was not initialized"),
    ];
    let found = patterns.iter().find_map(|pattern| {
        let near = fault.near(pattern.1)?;
        Some((pattern, near))
    });
    let Some(((kind, pattern, state), (what, value))) = found else {
        return Ok(Vec::new());
    };
    let title = format!(
        "{} used a pointer out of memory that {state}: {what} is {value:#x}",
        fault.place()
    );
    let mut finding = Finding::new(kind, 95, Sure::Certain, title).because(format!(
        "the kernel fills memory that {state} with {:#x}",
        pattern & 0xff
    ));
    for (register, object) in filled(evidence, fault, *pattern) {
        finding = finding
            .because(format!(
                "{register} points to the {object}, which is filled with it"
            ))
            .place(evidence.program, "object", object.start)
            .more(format!(
                "bigiron read DUMP {} -n {}",
                object.start, object.size
            ));
    }
    Ok(vec![fault.describe(evidence.program, finding)])
}

/// Returns the objects that registers point to and that are mostly filled with a pattern.
fn filled(evidence: &Evidence, fault: &Fault, pattern: u64) -> Vec<(String, SlabObject)> {
    let Ok(slabs) = evidence.slab_objects() else {
        return Vec::new();
    };
    let is_filled = |object: &SlabObject| {
        let mut bytes = vec![0; object.size.min(MAX_BYTES) as usize];
        let read = evidence
            .program
            .read("a slab object", object.start, &mut bytes);
        let byte = (pattern & 0xff) as u8;
        let filled = bytes.iter().filter(|found| **found == byte).count();
        read.is_ok() && filled * 2 > bytes.len()
    };
    let objects = fault.objects(&slabs).into_iter();
    objects.filter(|(_, object)| is_filled(object)).collect()
}
