//! File systems whose files are memory: tmpfs.
//!
//! Relies on `super_blocks`, and on `shmem_sb_info.used_blocks`, a percpu_counter that counts the
//! pages of a file system that has a limit (include/linux/shmem_fs.h, percpu_counter.h).

use std::collections::HashMap;

use bigiron_format::VirtAddr;

use crate::cpus::online_cpus;
use crate::error::InspectError;
use crate::mounts::Mounts;
use crate::program::Program;

/// Maximum number of file systems, and of bytes of a type's name.
const MAX_FILE_SYSTEMS: usize = 1 << 20;
const MAX_NAME: usize = 64;
/// Types of file systems in memory.
const TYPES: [&str; 2] = ["tmpfs", "devtmpfs"];

/// The files of a file system in memory.
pub struct MemoryFiles {
    /// What it is: `tmpfs on /mnt`.
    pub name: String,
    /// The memory of its files.
    pub bytes: u64,
    /// Its struct super_block.
    pub super_block: VirtAddr,
}

/// Finds all of them, those with the most memory first.
///
/// # Errors
///
/// The kernel lacks a symbol or a member.
pub fn find(program: &Program) -> Result<Vec<MemoryFiles>, InspectError> {
    let head = program.symbol("super_blocks")?;
    let all = program.list(head, "super_block", "s_list", MAX_FILE_SYSTEMS)?;
    let cpus = online_cpus(program, &mut Vec::new());
    let shift = program.kernel().source().page_shift();
    let mut found = Vec::new();
    for at in all.items {
        let kind = program.pointer(at, "super_block", "s_type")?;
        let kind = program.pointer(kind, "file_system_type", "name")?;
        let kind = program.string(kind, MAX_NAME)?;
        if TYPES.contains(&kind.as_str()) {
            let pages = pages(program, at, &cpus)?;
            found.push(MemoryFiles {
                name: kind,
                bytes: pages.saturating_mul(1 << shift),
                super_block: at,
            });
        }
    }
    found.sort_by_key(|files| std::cmp::Reverse(files.bytes));
    let places = places(program);
    for files in &mut found {
        if let Some(path) = places.get(&files.super_block) {
            files.name = format!("{} on {path}", files.name);
        }
    }
    Ok(found)
}

/// Where each file system is mounted first.
fn places(program: &Program) -> HashMap<VirtAddr, String> {
    let mut found = HashMap::new();
    for namespace in Mounts::of(&program.renewed())
        .unwrap_or_default()
        .namespaces
    {
        for mount in namespace.mounts {
            found.entry(mount.super_block).or_insert(mount.path);
        }
    }
    found
}

/// The pages of its files: the count, and what each CPU has not added to it yet.
fn pages(program: &Program, at: VirtAddr, cpus: &[usize]) -> Result<u64, InspectError> {
    let own = program.pointer(at, "super_block", "s_fs_info")?;
    let counter = program.member(own, "shmem_sb_info", "used_blocks")?;
    let mut sum = program.signed(counter, "percpu_counter", "count")?;
    let parts = program.pointer(counter, "percpu_counter", "counters")?;
    for cpu in cpus.iter().filter(|_| parts.0 != 0) {
        let part = program.number(program.per_cpu_at(parts, *cpu)?, 4)?;
        sum = sum.saturating_add(i64::from((part as u32).cast_signed()));
    }
    Ok(u64::try_from(sum).unwrap_or(0))
}
