//! Available memory of the machine, read without allocating.

use std::ffi::CStr;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};

use crate::c_string_buf::CStringBuf;

/// Size of the buffer for the path of a control group's file.
const PATH: usize = 1024;
/// Maximum number of bytes read from a file; /proc/meminfo and memory.stat are shorter.
const TEXT: usize = 8192;

/// A hierarchy of control groups: its mount points and the names of its files.
struct Hierarchy {
    /// Start of the hierarchy's line in /proc/self/cgroup, after the number.
    name: &'static str,
    roots: &'static [&'static str],
    limit: &'static str,
    usage: &'static str,
    /// Name in memory.stat of the page cache that is reclaimed first.
    reclaimable: &'static str,
}

/// Version 2, also mounted next to version 1, and version 1 (cgroups(7)).
const HIERARCHIES: [Hierarchy; 2] = [
    Hierarchy {
        name: "::",
        roots: &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
        limit: "memory.max",
        usage: "memory.current",
        reclaimable: "inactive_file",
    },
    Hierarchy {
        name: ":memory:",
        roots: &["/sys/fs/cgroup/memory"],
        limit: "memory.limit_in_bytes",
        usage: "memory.usage_in_bytes",
        reclaimable: "total_inactive_file",
    },
];

/// Returns the bytes that this process can allocate without swapping: MemAvailable, or less if
/// a control group allows less; 0 if the system does not report it.
pub fn available_memory() -> u64 {
    let mut text = [0; TEXT];
    let machine = read_text(c"/proc/meminfo", &mut text)
        .ok()
        .and_then(|text| field(text, "MemAvailable:"))
        .map_or(0, |kib| kib.saturating_mul(1024));
    machine.min(left_in_group().unwrap_or(u64::MAX))
}

/// True if this process may lock any amount of memory (CAP_IPC_LOCK).
pub fn may_lock_all() -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let mut text = [0; 4096];
    let status = read_text(c"/proc/self/status", &mut text).unwrap_or("");
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.is_some_and(|mask| mask & (1 << CAP_IPC_LOCK) != 0)
}

/// True if this kernel supports an advice of madvise(2) and permits it to this process.
pub fn supports_advice(advice: i32) -> bool {
    // SAFETY: advice on an empty range changes nothing.
    unsafe { libc::madvise(std::ptr::null_mut(), 0, advice) == 0 }
}

/// Returns the bytes that the control groups of this process still allow; `None` without a
/// limit.
pub fn left_in_group() -> Option<u64> {
    let mut groups = [0; TEXT];
    let groups = read_text(c"/proc/self/cgroup", &mut groups).ok()?;
    groups.lines().filter_map(left_by_line).min()
}

/// Returns the remaining bytes of the group named by a line of /proc/self/cgroup and its
/// ancestors.
fn left_by_line(line: &str) -> Option<u64> {
    let (number, _) = line.split_once(':')?;
    let rest = line.get(number.len()..)?;
    let hierarchy = HIERARCHIES
        .iter()
        .find(|hierarchy| rest.starts_with(hierarchy.name))?;
    let group = rest.get(hierarchy.name.len()..)?;
    let roots = hierarchy.roots.iter();
    roots
        .filter_map(|root| left_below(hierarchy, root, group))
        .min()
}

fn left_below(hierarchy: &Hierarchy, root: &str, group: &str) -> Option<u64> {
    let mut least = None;
    let mut group = group.trim_end_matches('/');
    loop {
        if let Some(left) = left_of(hierarchy, root, group) {
            least = Some(least.map_or(left, |least: u64| least.min(left)));
        }
        let Some((above, _)) = group.rsplit_once('/') else {
            return least;
        };
        group = above;
    }
}

fn left_of(hierarchy: &Hierarchy, root: &str, group: &str) -> Option<u64> {
    let path = |name| CStringBuf::<PATH>::format(format_args!("{root}{group}/{name}"));
    let number = |name| {
        let mut text = [0; 64];
        read_text(path(name)?.as_c_str(), &mut text)
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    };
    // "max" is not a number; version 1 writes a number larger than any memory.
    let limit = number(hierarchy.limit).filter(|limit| *limit < 1 << 62)?;
    let usage = number(hierarchy.usage)?;
    let mut text = [0; TEXT];
    let reclaimable = path("memory.stat")
        .and_then(|path| read_text(path.as_c_str(), &mut text).ok())
        .and_then(|text| field(text, hierarchy.reclaimable))
        .unwrap_or(0);
    Some(limit.saturating_sub(usage.saturating_sub(reclaimable)))
}

/// Returns numbers from this thread's status by their names; `None` if one is missing.
pub(crate) fn status<const N: usize>(names: [&str; N]) -> Option<[u64; N]> {
    let mut text = [0; 4096];
    let text = read_text(c"/proc/thread-self/status", &mut text).ok()?;
    let mut numbers = [0; N];
    for (number, name) in numbers.iter_mut().zip(names) {
        *number = field(text, name)?;
    }
    Some(numbers)
}

/// Returns the number after a name at the start of a line.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some(name))
            .then(|| words.next()?.parse().ok())
            .flatten()
    })
}

/// Reads a file's text, as much as fits into `room`; cut at the first byte that is not UTF-8.
pub(crate) fn read_text<'a>(path: &CStr, room: &'a mut [u8]) -> Result<&'a str, Errno> {
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut filled = 0;
    while let Some(left) = room.get_mut(filled..).filter(|left| !left.is_empty()) {
        match read(&file, left) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    let bytes = room.get(..filled).unwrap_or_default();
    let whole = |error: std::str::Utf8Error| {
        str::from_utf8(bytes.get(..error.valid_up_to()).unwrap_or_default())
    };
    str::from_utf8(bytes)
        .or_else(whole)
        .map_err(|_| Errno::ILSEQ)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    const PLAIN: Hierarchy = Hierarchy {
        name: "::",
        roots: &[],
        limit: "memory.max",
        usage: "memory.current",
        reclaimable: "inactive_file",
    };

    fn group(root: &Path, path: &str, limit: &str, usage: &str, stat: &str) {
        let directory = root.join(path);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("memory.max"), limit).unwrap();
        fs::write(directory.join("memory.current"), usage).unwrap();
        fs::write(directory.join("memory.stat"), stat).unwrap();
    }

    #[test]
    fn tightest_control_group_limits_the_memory() {
        let root = tempfile::tempdir().unwrap();
        group(root.path(), "", "max\n", "1\n", "");
        group(
            root.path(),
            "a",
            "1000\n",
            "800\n",
            "anon 1\ninactive_file 300\n",
        );
        group(root.path(), "a/b", "900\n", "100\n", "anon 1\n");
        let root = root.path().to_str().unwrap();
        assert_eq!(left_below(&PLAIN, root, "/a/b"), Some(500));
        assert_eq!(left_below(&PLAIN, root, "/a"), Some(500));
        assert_eq!(left_below(&PLAIN, root, "/"), None);
        // A group that is not visible in this mount; its ancestors are.
        assert_eq!(left_below(&PLAIN, root, "/a/hidden"), Some(500));
    }

    #[test]
    fn this_machine_has_memory() {
        let available = available_memory();
        assert!(available > 1 << 20, "{available}");
    }

    #[test]
    fn path_that_is_too_long_has_no_limit() {
        let long = "/x".repeat(PATH);
        assert_eq!(left_below(&PLAIN, "/sys/fs/cgroup", &long), None);
    }
}
