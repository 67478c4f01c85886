//! Finding: a list whose neighbours disagree, which the kernel noticed.
//!
//! Relies on the messages of CONFIG_DEBUG_LIST (lib/list_debug.c).

use bigiron_format::VirtAddr;

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
use super::log::calls;
use crate::error::InspectError;

/// Kind.
pub const KIND: &str = "list-corruption";
/// Beginnings of the messages.
const MESSAGES: [&str; 4] = [
    "list_del corruption",
    "list_add corruption",
    "list_add double add",
    "slist corruption",
];

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let is_message = |line: &str| MESSAGES.iter().any(|known| line.starts_with(known));
    let Some(report) = evidence.log().last_report(is_message) else {
        return Ok(Vec::new());
    };
    let message = report.first().copied().unwrap_or("");
    let calls = calls(&report);
    let own = calls
        .iter()
        .find(|call| !call.starts_with("__list_") && !call.starts_with("list_"));
    let place = own.map_or("an unknown function", String::as_str);
    let title = format!("a list is corrupted, as {place} noticed: {message}");
    let mut finding = Finding::new(KIND, 95, Sure::Certain, title);
    let slabs = evidence.slab_objects().ok();
    for address in addresses(message) {
        let at = VirtAddr(address);
        let links = [0, 8].map(|offset| {
            evidence
                .program
                .number(VirtAddr(address.wrapping_add(offset)), 8)
        });
        if let [Ok(next), Ok(prev)] = links {
            finding = finding.because(format!("{at} has next {next:#x} and prev {prev:#x}"));
        }
        if let Some(object) = slabs.as_ref().and_then(|slabs| slabs.at(at)) {
            finding = finding.because(format!("{at} is in the {object}"));
        }
        finding = finding.place(evidence.program, "list_head", at);
    }
    finding = finding.called_by(&calls);
    Ok(vec![finding.more("bigiron dmesg DUMP")])
}

/// Returns the addresses that a message has, each once.
fn addresses(message: &str) -> Vec<u64> {
    let words = message.split(|c: char| !c.is_ascii_alphanumeric());
    let mut found = Vec::new();
    for word in words.filter(|word| word.len() == 16) {
        if let Ok(address) = u64::from_str_radix(word, 16)
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_message_are_read_once() {
        let message = "list_del corruption. next->prev should be ffff8db8428ad600, but was \
                       ffff8db8428adb00. (next=ffff8db8428adb00)";
        assert_eq!(
            addresses(message),
            [0xffff_8db8_428a_d600, 0xffff_8db8_428a_db00]
        );
    }
}
