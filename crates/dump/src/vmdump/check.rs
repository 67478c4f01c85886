//! Checks of a vmdump beyond its pages.

use bigiron_format::FormatError;
use bigiron_format::vmdump::Stretch;
use bigiron_format::vmdump::check::{Finding, check, check_group};
use bigiron_helpers::{Stop, WorkCursor, run};
use bigiron_kernel::VmdumpSource;

/// Maximum number of findings reported; more are of the same kind.
const MAX_FINDINGS: usize = 64;

/// Reports defects of `dump` outside its pages, one line each, in order of offset; `helpers`
/// threads check the compressed bytes. If stopped, returns the findings so far.
///
/// Excluded pages that are not zero are found while their chunks are read, that is, after all
/// pages were verified.
pub fn check_vmdump(
    dump: &VmdumpSource,
    helpers: usize,
    stop: &Stop,
) -> Result<Vec<String>, FormatError> {
    let mut findings = check_order(dump);
    let mut groups: Vec<(usize, Option<usize>)> = Vec::new();
    for (number, part) in dump.parts().iter().enumerate() {
        groups.push((number, None));
        groups.extend((0..part.file.chunk_groups()).map(|group| (number, Some(group))));
    }
    let cursor = WorkCursor::new(groups.len() as u64);
    let parts = run(helpers, stop, |_| {
        let mut found: Vec<(usize, Finding)> = Vec::new();
        let mut packed = Vec::new();
        while let Some(index) = cursor.take(stop) {
            let (number, group) = groups[index as usize];
            let file = &dump.parts()[number].file;
            if found.len() < MAX_FINDINGS {
                let new = match group {
                    Some(group) => check_group(file, group, &mut packed)?,
                    None => check(file)?,
                };
                found.extend(new.into_iter().map(|finding| (number, finding)));
            }
        }
        Ok::<_, FormatError>(found)
    })?;
    findings.extend(parts.into_iter().flatten());
    findings.extend(dump.not_zero().map(|page| {
        let finding = Finding {
            offset: page.offset,
            position: Some(page.position),
            reason: "an excluded page is not zero".into(),
        };
        (page.part, finding)
    }));
    findings.sort_by_key(|(number, finding)| (*number, finding.offset));
    findings.truncate(MAX_FINDINGS);
    Ok(findings.iter().map(|found| line(dump, found)).collect())
}

/// The parts of a striped dump that claim to be complete must cover the core together, without
/// overlaps.
fn check_order(dump: &VmdumpSource) -> Vec<(usize, Finding)> {
    let whole = dump.parts().iter().all(|part| part.file.root().is_some());
    if !dump.header().is_striped() || !dump.has_all_parts() || !whole {
        return Vec::new();
    }
    let mut order = dump.core_order();
    let mut findings = Vec::new();
    let mut found = |start: u64, end: u64| {
        let finding = Finding {
            offset: 0,
            position: Some(start),
            reason: format!("no part has the {} bytes here", end - start),
        };
        findings.push((0, finding));
    };
    for stretch in order.by_ref() {
        if let Stretch::Gap(gap) = stretch {
            found(gap.start, gap.end);
        }
    }
    if order.covered() < dump.header().core_size {
        found(order.covered(), dump.header().core_size);
    }
    if let Some((number, chunk)) = order.overlap() {
        let finding = Finding {
            offset: chunk.offset,
            position: Some(chunk.position),
            reason: "a chunk that another part has as well".into(),
        };
        findings.push((*number, finding));
    }
    findings.truncate(MAX_FINDINGS);
    findings
}

fn line(dump: &VmdumpSource, (number, finding): &(usize, Finding)) -> String {
    let address = finding.position.and_then(|at| dump.physical(at));
    let place = match (finding.position, address) {
        (_, Some(address)) => format!(" (physical address {address:#x})"),
        (Some(position), None) => format!(" (byte {position:#x} of the core)"),
        (None, None) => String::new(),
    };
    let name = match dump.header().is_striped() {
        true => format!("{}: ", dump.parts()[*number].path.display()),
        false => String::new(),
    };
    format!(
        "{name}offset {:#x}{place}: {}",
        finding.offset, finding.reason
    )
}
