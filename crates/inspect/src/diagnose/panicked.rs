//! Remark: the panic itself, where nothing says more.
//!
//! Relies on the log.

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
use crate::crash::EventKind;
use crate::error::InspectError;

/// Kind.
pub const KIND: &str = "panic";

/// The remark.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let crash = &evidence.log().crash;
    let Some(panic) = &crash.panic else {
        return Ok(Vec::new());
    };
    let is_request = crash
        .cause
        .as_ref()
        .is_some_and(|cause| cause.kind == EventKind::Request)
        || panic.message.contains("sysrq triggered crash");
    let (weight, title) = match is_request {
        true => (10, "the kernel was asked to crash (sysrq)".to_owned()),
        false => (40, format!("the kernel panicked: {}", panic.message)),
    };
    let finding = Finding::new(KIND, weight, Sure::Certain, title);
    Ok(vec![finding.more("bigiron info DUMP")])
}
