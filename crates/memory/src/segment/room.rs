//! Checks the limits of the system before a segment is created.

use std::fs;
use std::path::Path;

use rustix::fs::statvfs;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::backing::directory_of;
use super::{Huge, Kind, Request, SegmentError};
use crate::machine::{available_memory, may_lock_all};

/// Returns an error if a limit of the system does not allow the request. The error explains how
/// to raise the limit.
pub fn check(request: &Request) -> Result<(), SegmentError> {
    let wanted = request.bytes as u64;
    let refuse = |limit: &str, allowed: u64, remedy: &str, errno| {
        Err(SegmentError::Limit {
            what: request.what(),
            wanted,
            limit: limit.into(),
            allowed,
            remedy: remedy.into(),
            errno,
        })
    };
    if let Kind::SystemV { .. } = request.kind {
        let most = number("/proc/sys/kernel/shmmax").unwrap_or(u64::MAX);
        if wanted > most {
            let remedy = "raise it with sysctl kernel.shmmax";
            return refuse("kernel.shmmax", most, remedy, Errno::INVAL);
        }
        let page = rustix::param::page_size() as u64;
        let all = number("/proc/sys/kernel/shmall").unwrap_or(u64::MAX);
        let left = all.saturating_mul(page).saturating_sub(in_segments());
        if wanted > left {
            let remedy = "remove segments (ipcs -m), or raise it with sysctl kernel.shmall";
            return refuse("kernel.shmall", left, remedy, Errno::NOSPC);
        }
    }
    if request.lock && !may_lock_all() {
        let limit = getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
        if wanted > limit {
            let remedy = "raise it with ulimit -l or limits.conf(5), or grant CAP_IPC_LOCK";
            return refuse("RLIMIT_MEMLOCK", limit, remedy, Errno::NOMEM);
        }
    }
    if let Huge::Pool(size) = request.huge {
        let free = free_in_pool(size);
        if wanted > free {
            let remedy = format!(
                "add pages with /sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages",
                size >> 10
            );
            let limit = format!("the hugetlb pool of {} KiB pages", size >> 10);
            return refuse(&limit, free, &remedy, Errno::NOMEM);
        }
        return Ok(());
    }
    if let Some(directory) = directory_of(&request.kind) {
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        if wanted > limit {
            return refuse(
                "RLIMIT_FSIZE",
                limit,
                "raise it with ulimit -f",
                Errno::FBIG,
            );
        }
        let free = free_in(&directory);
        if wanted > free {
            let name = format!("the file system at {}", directory.display());
            let remedy = "free space, or enlarge a tmpfs with mount -o remount,size=SIZE";
            return refuse(&name, free, remedy, Errno::NOSPC);
        }
    }
    if request.populate {
        let available = available_memory().saturating_add(swap_free());
        if wanted > available {
            let remedy = "free memory, or raise the memory limit of the control group";
            return refuse("available memory", available, remedy, Errno::NOMEM);
        }
    }
    Ok(())
}

/// Returns the bytes that this user can allocate on a file system.
fn free_in(directory: &Path) -> u64 {
    // A tmpfs without a limit reports 0 of 0 blocks.
    statvfs(directory).map_or(u64::MAX, |state| match state.f_blocks {
        0 => u64::MAX,
        _ => state.f_bavail.saturating_mul(state.f_frsize),
    })
}

/// Returns the bytes of free, unreserved pages of a hugetlb pool.
pub fn free_in_pool(size: usize) -> u64 {
    let directory = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", size >> 10);
    let count = |name: &str| number(&format!("{directory}/{name}")).unwrap_or(0);
    let free = count("free_hugepages") + count("nr_overcommit_hugepages");
    let taken = count("resv_hugepages") + count("surplus_hugepages");
    free.saturating_sub(taken).saturating_mul(size as u64)
}

/// Returns the total size in bytes of all System V segments, as kernel.shmall counts them.
fn in_segments() -> u64 {
    let list = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let page = rustix::param::page_size() as u64;
    list.lines()
        .skip(1)
        .filter_map(|line| line.split_ascii_whitespace().nth(3)?.parse::<u64>().ok())
        .map(|bytes| bytes.next_multiple_of(page))
        .sum()
}

fn swap_free() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    crate::machine::field(&text, "SwapFree:").unwrap_or(0) * 1024
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
