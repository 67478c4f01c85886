//! Finding: a fault at an address close to zero: a NULL pointer was used.
//!
//! Relies on the kernel's report of the fault in its log.

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
use crate::error::InspectError;

/// Kind.
pub const KIND: &str = "null-pointer";
/// No kernel maps this range; members of a struct are in it.
const END: u64 = 4096;

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let Some(fault) = evidence.fault() else {
        return Ok(Vec::new());
    };
    let Some(address) = fault.address.filter(|address| *address < END) else {
        return Ok(Vec::new());
    };
    let title = format!(
        "{} used a NULL pointer: it accessed address {address:#x}",
        fault.place()
    );
    let zero = fault.registers.iter().filter(|(_, value)| *value == 0);
    let zero: Vec<&str> = zero.map(|(name, _)| name.as_str()).collect();
    let registers = format!("registers that are 0: {}", zero.join(", "));
    let finding = Finding::new(KIND, 90, Sure::Certain, title);
    let finding = finding.because_of((!zero.is_empty()).then_some(registers));
    Ok(vec![fault.describe(evidence.program, finding)])
}
