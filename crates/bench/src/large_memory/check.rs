//! Whether memory is there and locked, and gone at the end: asked of the kernel, by
//! interfaces that nothing here writes to.

use std::fs;

use anyhow::{Context, bail, ensure};
use bigiron_memory::{Region, mapping};

use super::held::Held;
use super::way::{Lock, Memory, Way};

/// What /proc/self/smaps says of a region, in bytes, all its mappings added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mapped {
    resident: u64,
    locked: u64,
    huge: u64,
}

/// Makes sure that all pages are there, mapped and locked as the way promises. Gives the
/// part of them that is huge, 0 to 1.
pub(super) fn is_there(held: &Held, way: &Way) -> anyhow::Result<f64> {
    let smaps = fs::read_to_string("/proc/self/smaps").context("/proc/self/smaps")?;
    let mapped = of_region(&smaps, held.region);
    let size = held.region.length() as u64;
    ensure!(
        mapped.resident == size,
        "of {size} bytes only {} are mapped",
        mapped.resident
    );
    let locked = matches!(way.lock, Lock::Mlock | Lock::OnFault);
    ensure!(
        !locked || mapped.locked == size || way.memory == Memory::Hugetlb,
        "of {size} bytes only {} are locked",
        mapped.locked
    );
    let segments = segments()?;
    let mut resident = 0;
    for own in &held.segments {
        let line = segments.iter().find(|line| line.id == i64::from(own.id));
        // hugetlb pages are never swapped, so that SHM_LOCK does nothing (shmctl_do_lock of ipc/shm.c);
        // and shm_add_rss_swap takes each small page of them for a huge one.
        let line = line.context("/proc/sysvipc/shm lacks a segment that is attached")?;
        /// SHM_LOCKED of include/linux/shm.h.
        const SHM_LOCKED: u32 = 0o2000;
        ensure!(
            way.lock != Lock::Shm || way.memory == Memory::Hugetlb || line.mode & SHM_LOCKED != 0,
            "/proc/sysvipc/shm does not show the segment as locked"
        );
        ensure!(
            line.attached == 1,
            "the segment is attached {} times",
            line.attached
        );
        resident += line.resident;
    }
    ensure!(
        held.segments.is_empty() || way.memory == Memory::Hugetlb || resident == size,
        "the segments have {resident} bytes of {size}"
    );
    Ok(mapped.huge as f64 / size as f64)
}

/// Makes sure that nothing is left of it.
pub(super) fn is_gone(region: Region, ids: &[i32]) -> anyhow::Result<()> {
    let segments = segments()?;
    if let Some(id) = ids
        .iter()
        .find(|id| segments.iter().any(|line| line.id == i64::from(**id)))
    {
        bail!("segment {id} is still there after it was removed");
    }
    // Where it was, another thread may have memory of its own by now; the C library reserves 64 MiB for its blocks, which may
    // not be read.
    let left = mapping::at(region.start()).filter(|left| {
        let is_alike = left.readable && left.system_v != ids.is_empty();
        is_alike && left.region.length() >= region.length()
    });
    ensure!(left.is_none(), "the memory is still mapped");
    Ok(())
}

/// A line of /proc/sysvipc/shm.
#[derive(Debug)]
struct Line {
    id: i64,
    mode: u32,
    attached: u64,
    resident: u64,
}

fn segments() -> anyhow::Result<Vec<Line>> {
    const PATH: &str = "/proc/sysvipc/shm";
    let text = fs::read_to_string(PATH).context(PATH)?;
    Ok(text.lines().skip(1).filter_map(line).collect())
}

/// `key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap`, as
/// sysvipc_shm_proc_show of ipc/shm.c writes it.
fn line(text: &str) -> Option<Line> {
    let fields: Vec<_> = text.split_whitespace().collect();
    Some(Line {
        id: fields.get(1)?.parse().ok()?,
        mode: u32::from_str_radix(fields.get(2)?, 8).ok()?,
        attached: fields.get(6)?.parse().ok()?,
        resident: fields.get(14)?.parse().ok()?,
    })
}

fn of_region(smaps: &str, region: Region) -> Mapped {
    let (mut sum, mut inside) = (Mapped::default(), false);
    for line in smaps.lines() {
        if let Some(mapping) = head(line) {
            inside = mapping.start() >= region.start() && mapping.end() <= region.end();
        } else if inside {
            let mut fields = line.split_whitespace();
            let (Some(name), Some(value)) = (fields.next(), fields.next()) else {
                continue;
            };
            let bytes = value.parse::<u64>().unwrap_or(0) << 10;
            match name {
                "Rss:" => sum.resident += bytes,
                "Locked:" => sum.locked += bytes,
                "AnonHugePages:" | "ShmemPmdMapped:" => sum.huge += bytes,
                // Not in Rss.
                "Shared_Hugetlb:" | "Private_Hugetlb:" => {
                    sum.huge += bytes;
                    sum.resident += bytes;
                }
                _ => {}
            }
        }
    }
    sum
}

/// The first line of a mapping.
fn head(line: &str) -> Option<Region> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(Region::between(number(start)?, number(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000200000 rw-s 00000000 00:01 3 /SYSV00000000 (deleted)
Size:               2048 kB
Rss:                2044 kB
Locked:             1024 kB
ShmemPmdMapped:        0 kB
VmFlags: rd wr sh mr mw me ms sd
7f0000200000-7f0000400000 rw-s 00000000 00:01 4 /SYSV00000000 (deleted)
Rss:                2048 kB
ShmemPmdMapped:     2048 kB
7f0000400000-7f0000401000 rw-p 00000000 00:00 0
Rss:                   4 kB
";

    #[test]
    fn mappings_of_a_region_are_added_up() {
        let region = Region::between(0x7f00_0000_0000, 0x7f00_0040_0000);
        let expected = Mapped {
            resident: 4092 << 10,
            locked: 1 << 20,
            huge: 2 << 20,
        };
        assert_eq!(of_region(SMAPS, region), expected);
    }

    #[test]
    fn a_line_of_the_kernel() {
        let text = "         0      65560  3600            1073741824  101   101      1     0     0     0     0 1700000000          0 1700000000            1073741824                     0";
        let line = line(text).unwrap();
        assert_eq!((line.id, line.attached, line.resident), (65560, 1, 1 << 30));
        assert_eq!(line.mode & 0o2000, 0o2000);
        assert!(super::line("garbage").is_none());
    }
}
