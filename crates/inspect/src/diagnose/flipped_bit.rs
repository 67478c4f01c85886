//! Finding: a fault at an address that is one bit away from a slab object.
//!
//! Relies on the kernel's report of the fault in its log, and on slabs (`slab_object`).

use bigiron_format::VirtAddr;

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
use crate::error::InspectError;
use crate::slab_object::SlabObject;

/// Kind.
pub const KIND: &str = "flipped-bit";
/// Members of a struct are at most that far from its start.
const MAX_OFFSET: u64 = 4096;
/// Lower bits are those of an offset.
const BITS: std::ops::Range<u32> = 12..63;

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let Some(fault) = evidence.fault() else {
        return Ok(Vec::new());
    };
    let Some(address) = fault.address.filter(|address| *address >= MAX_OFFSET) else {
        return Ok(Vec::new());
    };
    let slabs = evidence.slab_objects()?;
    let kernel = evidence.program.kernel();
    let is_mapped = |address: u64| {
        kernel
            .translate(VirtAddr(address))
            .is_ok_and(|leaf| leaf.is_some())
    };
    if is_mapped(address) {
        return Ok(Vec::new());
    }
    let bases = fault.registers.iter().filter(|(_, value)| {
        address
            .checked_sub(*value)
            .is_some_and(|offset| offset < MAX_OFFSET)
    });
    // Without the pointer itself, the address is one.
    let name = bases.clone().next().map(|(name, _)| name.as_str());
    let pointer = bases.map(|(_, value)| *value).next().unwrap_or(address);
    let candidates: Vec<(u32, SlabObject)> = BITS
        .filter_map(|bit| Some((bit, slabs.at(VirtAddr(pointer ^ 1 << bit))?)))
        .collect();
    // A pointer to anywhere may be one bit away from some object, but hardly from one alone.
    let [(bit, object)] = candidates.as_slice() else {
        return Ok(Vec::new());
    };
    let title = format!(
        "{} used a pointer that is wrong by one bit: {} is {pointer:#x}, and with bit {bit} \
         changed it points to the {object}",
        fault.place(),
        name.unwrap_or("the address")
    );
    let mut finding = Finding::new(KIND, 92, Sure::Possible, title);
    let right = pointer ^ 1 << bit;
    let same = fault.registers.iter().find(|(_, value)| *value == right);
    if object.offset == 0 {
        finding.sure = Sure::Likely;
        finding = finding.because("that is the start of an object");
    }
    if let Some((name, _)) = same {
        finding.sure = Sure::Likely;
        finding = finding.because(format!("{name} has the pointer without the error"));
    }
    finding = finding
        .because("no other bit leads to an object, and the address is not mapped")
        .because(
            "one bit is changed by memory without ECC, by a processor, or by code that sets a flag in \
             a wrong word",
        )
        .place(evidence.program, "object", object.start)
        .more(format!(
            "bigiron read DUMP {} -n {}",
            object.start, object.size
        ));
    Ok(vec![fault.describe(evidence.program, finding)])
}
