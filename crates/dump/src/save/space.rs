//! Whether a copy has room.

use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;

use bigiron_format::ReadAt;
use rustix::fs::statvfs;

use super::directory::Directory;
use crate::error::DumpError;

/// KiB that stay free where `minfree` says nothing: Solaris's savecore leaves
/// one MiB.
const MINFREE_KIB: u64 = 1 << 10;
/// Holes that are passed over: those of a sparse core of some TiB.
const MOST_PIECES: usize = 1 << 16;
/// Longer files are no number.
const MINFREE_BYTES: u64 = 64;

/// What of `range` is no hole, in order. Each look at where a hole begins may go
/// through all of a file (tmpfs does), so this is done once, and of very many
/// holes only the first are passed over: zeros are found anyway.
pub fn data(bytes: &dyn ReadAt, range: Range<u64>) -> Vec<Range<u64>> {
    let mut data: Vec<Range<u64>> = Vec::new();
    let end = range.end.min(bytes.size());
    let mut at = range.start;
    while at < end {
        let start = bytes.next_data(at).clamp(at, end);
        if start == end {
            break;
        }
        let stop = if data.len() < MOST_PIECES {
            bytes.next_hole(start).min(end)
        } else {
            end
        };
        // Whoever says that a hole begins where data does knows of none.
        at = if stop > start { stop } else { end };
        data.push(start..at);
    }
    data
}

/// Bytes of a file that are no holes.
pub fn data_bytes(bytes: &dyn ReadAt) -> u64 {
    data(bytes, 0..bytes.size())
        .iter()
        .map(|range| range.end - range.start)
        .sum()
}

/// An error that says how much is missing if `needed` bytes do not fit, and
/// beside them what is to stay free.
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
            "the dump needs {needed} bytes and {reserve} are to stay free, but {free} are free: \
             {} bytes are missing; nothing was changed",
            wanted - free
        ),
    ))
}

/// Bytes that a dump of unknown size may have at most; `None` if nobody can tell.
pub fn limit(directory: &Directory) -> Result<Option<NonZeroU64>, DumpError> {
    let Some((free, reserve)) = free(directory) else {
        return Ok(None);
    };
    match NonZeroU64::new(free.saturating_sub(reserve)) {
        Some(limit) => Ok(Some(limit)),
        None => Err(full(
            directory,
            format!("{free} bytes are free, and {reserve} are to stay so; nothing was changed"),
        )),
    }
}

/// Bytes that are free, and how many of them are to stay so.
fn free(directory: &Directory) -> Option<(u64, u64)> {
    let found = statvfs(directory.root()).ok()?;
    let reserve = minfree(directory).saturating_mul(1 << 10);
    Some((found.f_bavail.saturating_mul(found.f_frsize), reserve))
}

fn full(directory: &Directory, text: String) -> DumpError {
    DumpError::Output {
        path: directory.root().to_owned(),
        action: "save into it",
        source: io::Error::new(io::ErrorKind::StorageFull, text),
        hint: "",
    }
}

/// KiB that the file `minfree` in the directory wants to stay free.
fn minfree(directory: &Directory) -> u64 {
    let path = directory.root().join("minfree");
    let is_small =
        fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= MINFREE_BYTES);
    let text = is_small.then(|| fs::read_to_string(&path).ok()).flatten();
    let number = text.and_then(|text| text.trim().parse().ok());
    number.unwrap_or(MINFREE_KIB)
}
