//! Finding: a page frame whose struct page cannot be so when it is freed or allocated, which the
//! kernel noticed: flags, a counter, or a mapping that it must not have.
//!
//! Relies on the messages of bad_page (mm/page_alloc.c) and dump_page (mm/debug.c), and on struct
//! page.

use bigiron_format::{PageFrame, VirtAddr};
use bigiron_kernel::mem_map::MemMap;

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
use super::log::calls;
use crate::error::InspectError;

/// Kind.
pub const KIND: &str = "bad-page";
/// The first line of a report.
const MESSAGE: &str = "BUG: Bad page state in process ";
/// Beginnings of the lines that tell more.
const FACTS: [&str; 3] = ["page dumped because: ", "page:", "flags: "];
/// Functions that free and allocate pages, and that of the report.
const OF_PAGES: [&str; 8] = [
    "bad_page",
    "free_page",
    "__free_page",
    "free_unref",
    "free_pcp",
    "free_tail",
    "get_page_from",
    "__alloc_pages",
];
/// Calls shown.
const SHOWN: usize = 8;

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let log = evidence.log();
    let Some(report) = log.last_report(|line| line.starts_with(MESSAGE)) else {
        return Ok(Vec::new());
    };
    let message = report.first().copied().unwrap_or("");
    let lines = || report.iter().skip(1).map(|line| line.trim());
    let reason = lines().find_map(|line| line.strip_prefix("page dumped because: "));
    let calls = calls(&report);
    let is_of_pages = |call: &&String| OF_PAGES.iter().any(|known| call.starts_with(known));
    let own = calls.iter().find(|call| !is_of_pages(call));
    let frame = frame(message);
    let title = format!(
        "the page frame {} cannot be so, as {} noticed: {}",
        frame.map_or("unknown".into(), |frame| format!("{frame:#x}")),
        own.map_or("an unknown function", String::as_str),
        reason.unwrap_or("the kernel says no more")
    );
    let mut finding =
        Finding::new(KIND, 78, Sure::Certain, title).because(format!("the log: {message}"));
    for fact in lines()
        .filter(|line| FACTS.iter().any(|known| line.starts_with(known)))
        .take(4)
    {
        finding = finding.because(format!("the log: {fact}"));
    }
    finding = finding.called_by(calls.iter().take(SHOWN));
    if let Some((page, flags)) = frame.and_then(|frame| page(evidence, frame)) {
        finding = finding
            .because(format!(
                "the flags of its struct page in the dump are {flags:#x}"
            ))
            .place(evidence.program, "struct page", page);
    }
    Ok(vec![finding.more("bigiron dmesg DUMP")])
}

/// The number of the page frame: `BUG: Bad page state in process sh  pfn:07f80`.
fn frame(message: &str) -> Option<u64> {
    let (_, number) = message.rsplit_once("pfn:")?;
    u64::from_str_radix(number.trim().trim_start_matches("0x"), 16).ok()
}

/// The struct page of a page frame, and its flags.
fn page(evidence: &Evidence, frame: u64) -> Option<(VirtAddr, u64)> {
    let program = evidence.program;
    let map = MemMap::find(program.kernel()).ok()?;
    let section = map.section(program.kernel(), frame >> map.frames_shift());
    let at = map.page_struct(section.ok()??, PageFrame(frame));
    Some((at, program.value(at, "page", "flags").ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_frame_is_read_from_the_first_line() {
        assert_eq!(
            frame("BUG: Bad page state in process a b  pfn:07f80"),
            Some(0x7f80)
        );
        assert_eq!(frame("BUG: Bad page state in process a b"), None);
    }
}
