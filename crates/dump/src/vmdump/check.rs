//! Checks of a vmdump beyond its pages.

use bigiron_format::FormatError;
use bigiron_format::vmdump::check::{Finding, check, check_piece};
use bigiron_helpers::{ChunkCursor, Stop, run};
use bigiron_kernel::VmdumpSource;

/// Findings that are told; more are of the same kind.
const MAX_FINDINGS: usize = 64;

/// What is wrong in `dump` beside its pages, by offset, a line for each;
/// `helpers` threads check the compressed bytes. If it is told to stop, what was
/// found till then.
///
/// Excluded pages that are not zeros are found as their chunks are read, so
/// after all pages were.
pub fn check_vmdump(
    dump: &VmdumpSource,
    helpers: usize,
    stop: &Stop,
) -> Result<Vec<String>, FormatError> {
    let file = dump.file();
    let mut findings = check(file)?;
    let cursor = ChunkCursor::new(file.pieces() as u64);
    let parts = run(helpers, stop, |_| {
        let mut found = Vec::new();
        let mut packed = Vec::new();
        while let Some(piece) = cursor.take(stop) {
            if found.len() < MAX_FINDINGS {
                found.extend(check_piece(file, piece as usize, &mut packed)?);
            }
        }
        Ok::<_, FormatError>(found)
    })?;
    findings.extend(parts.into_iter().flatten());
    findings.extend(dump.not_zero().map(|(offset, position)| Finding {
        offset,
        position: Some(position),
        reason: "a page that was not dumped is not zero".into(),
    }));
    findings.sort_by_key(|finding| finding.offset);
    findings.truncate(MAX_FINDINGS);
    Ok(findings.iter().map(|finding| line(dump, finding)).collect())
}

fn line(dump: &VmdumpSource, finding: &Finding) -> String {
    let address = finding.position.and_then(|at| dump.physical(at));
    let place = match (finding.position, address) {
        (_, Some(address)) => format!(" (physical address {address:#x})"),
        (Some(position), None) => format!(" (byte {position:#x} of the core)"),
        (None, None) => String::new(),
    };
    format!("offset {:#x}{place}: {}", finding.offset, finding.reason)
}
