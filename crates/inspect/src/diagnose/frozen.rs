//! Finding: a frozen file system, and the tasks that wait until it is thawed.
//!
//! Relies on `super_blocks` and on `super_block.s_writers.frozen` (include/linux/fs.h).

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::waiting::longest;
use crate::error::InspectError;
use crate::waits::Wait;

/// Kind.
pub const KIND: &str = "frozen";
/// Maximum number of file systems.
const MAX_FILE_SYSTEMS: usize = 1 << 20;

/// A finding for each frozen file system.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let program = evidence.program;
    let head = program.symbol("super_blocks")?;
    let all = program
        .list(head, "super_block", "s_list", MAX_FILE_SYSTEMS)?
        .items;
    let size = program.size_of("super_block")?;
    program.locate("super_block", "s_writers.frozen")?;
    let is_frozen = |at: &bigiron_format::VirtAddr| {
        program
            .value(*at, "super_block", "s_writers.frozen")
            .is_ok_and(|state| state != 0)
    };
    let waits = &evidence.waits()?.waits;
    let mut findings = Vec::new();
    for at in all.into_iter().filter(is_frozen) {
        // Writers wait in the super block itself.
        let waits_here = |wait: &&Wait| {
            let on = wait.on.as_ref();
            on.is_some_and(|on| {
                on.address
                    .0
                    .checked_sub(at.0)
                    .is_some_and(|offset| offset < size)
            })
        };
        let waiting: Vec<&Wait> = waits.iter().filter(waits_here).collect();
        let name = program.text(at, "super_block", "s_id")?;
        let weight = if waiting.is_empty() { 30 } else { 85 };
        let title = format!(
            "the file system on {name} is frozen; {} tasks wait until it is thawed, up to {}",
            waiting.len(),
            seconds(longest(waiting.iter().copied()))
        );
        findings.push(
            Finding::new(KIND, weight, Sure::Certain, title)
                .because("s_writers.frozen of its super block is not 0")
                .waiters(waiting, "waits")
                .place(program, "super_block", at)
                .more("bigiron info --waits --stacks DUMP"),
        );
    }
    Ok(findings)
}
