//! Checks that memory is present, mapped and locked, and released at the end. The kernel is
//! queried by interfaces that the measured code does not use.

use std::fs;

use anyhow::{Context, bail, ensure};
use bigiron_memory::{Region, mapping};

use super::held::Held;
use super::method::{Lock, Memory, Method};

/// Sums over all mappings of a region in /proc/self/smaps, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mapped {
    resident: u64,
    locked: u64,
    huge: u64,
}

/// Checks that all pages are present, mapped and locked as `way` requires. Returns the fraction
/// of the memory that is in huge pages, 0 to 1.
pub(super) fn is_there(held: &Held, method: &Method) -> anyhow::Result<f64> {
    let smaps = fs::read_to_string("/proc/self/smaps").context("/proc/self/smaps")?;
    let mapped = of_region(&smaps, held.region);
    let size = held.region.length() as u64;
    ensure!(
        mapped.resident == size,
        "only {} of {size} bytes are mapped",
        mapped.resident
    );
    let locked = matches!(method.lock, Lock::Mlock | Lock::OnFault);
    ensure!(
        !locked || mapped.locked == size || method.memory == Memory::Hugetlb,
        "only {} of {size} bytes are locked",
        mapped.locked
    );
    let segments = segments()?;
    let mut resident = 0;
    for own in &held.segments {
        let line = segments.iter().find(|line| line.id == i64::from(own.id));
        // hugetlb pages are never swapped, so SHM_LOCK does nothing (shmctl_do_lock in
        // ipc/shm.c), and shm_add_rss_swap counts each of their small pages as a huge one.
        let line = line.context("/proc/sysvipc/shm does not list an attached segment")?;
        /// SHM_LOCKED in include/linux/shm.h.
        const SHM_LOCKED: u32 = 0o2000;
        ensure!(
            method.lock != Lock::Shm
                || method.memory == Memory::Hugetlb
                || line.mode & SHM_LOCKED != 0,
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
        held.segments.is_empty() || method.memory == Memory::Hugetlb || resident == size,
        "the segments have {resident} resident bytes, expected {size}"
    );
    Ok(mapped.huge as f64 / size as f64)
}

/// Checks that the mapping and the segments no longer exist.
pub(super) fn is_gone(region: Region, ids: &[i32]) -> anyhow::Result<()> {
    let segments = segments()?;
    if let Some(id) = ids
        .iter()
        .find(|id| segments.iter().any(|line| line.id == i64::from(**id)))
    {
        bail!("segment {id} still exists after its removal");
    }
    // Another thread may have mapped memory at this address meanwhile, such as the C library's
    // 64 MiB reservation for its heap, which is not readable.
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

/// Parses a line of sysvipc_shm_proc_show (ipc/shm.c): `key shmid perms size cpid lpid nattch
/// uid gid cuid cgid atime dtime ctime rss swap`.
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
                // These are not included in Rss.
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

/// Parses the first line of a mapping.
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
    fn mappings_of_a_region_are_summed() {
        let region = Region::between(0x7f00_0000_0000, 0x7f00_0040_0000);
        let expected = Mapped {
            resident: 4092 << 10,
            locked: 1 << 20,
            huge: 2 << 20,
        };
        assert_eq!(of_region(SMAPS, region), expected);
    }

    #[test]
    fn line_of_the_kernel_is_parsed() {
        let text = "         0      65560  3600            1073741824  101   101      1     0     0     0     0 1700000000          0 1700000000            1073741824                     0";
        let line = line(text).unwrap();
        assert_eq!((line.id, line.attached, line.resident), (65560, 1, 1 << 30));
        assert_eq!(line.mode & 0o2000, 0o2000);
        assert!(super::line("garbage").is_none());
    }
}
