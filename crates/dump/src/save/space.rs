//! Free space for a copy.

use std::io;
use std::num::NonZeroU64;
use std::ops::Range;

use bigiron_format::ReadAt;

use super::directory::Directory;
use crate::error::DumpError;

/// KiB that stay free without a file `minfree`, as with Solaris' savecore.
const MINFREE_KIB: u64 = 1 << 10;
/// Maximum number of holes looked up: those of a sparse core of some TiB.
const MAX_RANGES: usize = 1 << 16;
/// Maximum size of the file `minfree`.
const MINFREE_BYTES: u64 = 64;

/// Returns the ranges of `range` that are not holes, in order. Finding a hole may scan the
/// whole file (on tmpfs), so this is done once; after very many holes the rest is returned as
/// data, and its zeros are detected when they are copied.
pub fn data(bytes: &dyn ReadAt, range: Range<u64>) -> Vec<Range<u64>> {
    let mut data: Vec<Range<u64>> = Vec::new();
    let end = range.end.min(bytes.size());
    let mut at = range.start;
    while at < end {
        let start = bytes.next_data(at).clamp(at, end);
        if start == end {
            break;
        }
        let stop = if data.len() < MAX_RANGES {
            bytes.next_hole(start).min(end)
        } else {
            end
        };
        // A source that reports a hole where data starts does not know its holes.
        at = if stop > start { stop } else { end };
        data.push(start..at);
    }
    data
}

/// Number of bytes of a file that are not holes.
pub fn data_bytes(bytes: &dyn ReadAt) -> u64 {
    data(bytes, 0..bytes.size())
        .iter()
        .map(|range| range.end - range.start)
        .sum()
}

/// Returns an error with the number of missing bytes if `needed` bytes and the reserve do not
/// fit.
pub fn check(directory: &Directory, needed: u64) -> Result<(), DumpError> {
    let Some((free, reserve)) = free(directory) else {
        return Ok(());
    };
    let wanted = needed.saturating_add(reserve);
    if wanted <= free {
        return Ok(());
    }
    Err(full(
        directory,
        format!(
            "the dump needs {needed} bytes and {reserve} must stay free, but only {free} are free:  \
             {} bytes are missing; nothing was changed",
            wanted - free
        ),
    ))
}

/// Maximum size of a dump of unknown size, in bytes; `None` if the free space is unknown.
pub fn limit(directory: &Directory) -> Result<Option<NonZeroU64>, DumpError> {
    let Some((free, reserve)) = free(directory) else {
        return Ok(None);
    };
    match NonZeroU64::new(free.saturating_sub(reserve)) {
        Some(limit) => Ok(Some(limit)),
        None => Err(full(
            directory,
            format!("{free} bytes are free, and {reserve} must stay free; nothing was changed"),
        )),
    }
}

/// Number of free bytes that need not stay free; `None` if it is unknown.
pub fn spare(directory: &Directory) -> Option<u64> {
    free(directory).map(|(free, reserve)| free.saturating_sub(reserve))
}

/// Free bytes, and how many of them must stay free.
fn free(directory: &Directory) -> Option<(u64, u64)> {
    let found = directory.space().ok()?;
    let reserve = minfree(directory).saturating_mul(1 << 10);
    Some((found.f_bavail.saturating_mul(found.f_frsize), reserve))
}

fn full(directory: &Directory, text: String) -> DumpError {
    DumpError::Output {
        path: directory.root().to_owned(),
        action: "save into it",
        cause: io::Error::new(io::ErrorKind::StorageFull, text),
        hint: "",
    }
}

/// KiB that must stay free according to the file `minfree` in the directory.
fn minfree(directory: &Directory) -> u64 {
    let text = directory.read("minfree", MINFREE_BYTES);
    let number = text.and_then(|text| text.trim().parse().ok());
    number.unwrap_or(MINFREE_KIB)
}
