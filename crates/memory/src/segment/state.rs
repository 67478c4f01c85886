//! State of a mapping, from /proc/self/smaps.

use std::fs::File;
use std::io::{BufRead, BufReader};

use rustix::io::Errno;

use crate::region::Region;

/// Amounts of memory in a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Resident bytes.
    pub resident: u64,
    /// Resident bytes in huge pages.
    pub huge: u64,
    /// Bytes locked by mlock(2). SHM_LOCK is not included.
    pub locked: u64,
}

pub fn of(region: Region) -> Result<State, Errno> {
    let failed = |error: std::io::Error| {
        error
            .raw_os_error()
            .map_or(Errno::IO, Errno::from_raw_os_error)
    };
    let file = BufReader::new(File::open("/proc/self/smaps").map_err(failed)?);
    let mut state = State::default();
    let mut is_in_region = false;
    for line in file.split(b'\n') {
        let line = line.map_err(failed)?;
        // A path may not be UTF-8; only other fields are used.
        let line = String::from_utf8_lossy(&line);
        if let Some(found) = mapping(&line) {
            if found.start() >= region.end() {
                break;
            }
            is_in_region = !found.intersection(region).is_empty();
        } else if is_in_region {
            add(&mut state, &line);
        }
    }
    Ok(state)
}

fn mapping(line: &str) -> Option<Region> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(Region::between(address(start)?, address(end)?))
}

fn add(state: &mut State, line: &str) {
    let Some((name, value)) = line.split_once(':') else {
        return;
    };
    let kib = value.trim().strip_suffix("kB").map(str::trim);
    let bytes = kib.and_then(|kib| kib.parse().ok()).unwrap_or(0_u64) * 1024;
    match name {
        "Rss" => state.resident += bytes,
        "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" => state.huge += bytes,
        // Not included in Rss.
        "Shared_Hugetlb" | "Private_Hugetlb" => {
            state.huge += bytes;
            state.resident += bytes;
        }
        "Locked" => state.locked += bytes,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_smaps_are_added_up() {
        let mut state = State::default();
        for line in [
            "Size:               4096 kB",
            "Rss:                  8 kB",
            "ShmemPmdMapped:    2048 kB",
            "Private_Hugetlb:   1024 kB",
            "Locked:                4 kB",
            "VmFlags: rd wr sh",
        ] {
            assert_eq!(mapping(line), None, "{line}");
            add(&mut state, line);
        }
        let expected = State {
            resident: (8 + 1024) << 10,
            huge: 3 << 20,
            locked: 4 << 10,
        };
        assert_eq!(state, expected);
        let found =
            mapping("7f0000000000-7f0000200000 rw-s 00000000 00:01 3 /SYSV00000000 (deleted)");
        assert_eq!(found.map(Region::length), Some(2 << 20));
    }
}
