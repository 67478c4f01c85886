//! Slab objects on per-CPU freelists.

use std::collections::HashSet;

use bigiron_format::VirtAddr;

use crate::cpus::possible_cpus;
use crate::error::InspectError;
use crate::program::Program;

/// The per-CPU slabs of all caches: struct kmem_cache_cpu.
pub(crate) struct PerCpuSlabs {
    cpus: Vec<usize>,
    /// The member that points to the current slab; `None` if this kernel has no per-CPU slabs,
    /// but only sheaves.
    current: Option<&'static str>,
    has_partial: bool,
}

impl PerCpuSlabs {
    /// Determines the layout and the CPUs.
    pub(crate) fn of(program: &Program) -> Result<Self, InspectError> {
        let current = match program.has("kmem_cache", "cpu_slab") {
            true if program.has("kmem_cache_cpu", "slab") => Some("slab"),
            true => Some("page"),
            false => None,
        };
        Ok(Self {
            cpus: match current {
                Some(_) => possible_cpus(program)?,
                None => Vec::new(),
            },
            current,
            has_partial: program.has("kmem_cache_cpu", "partial"),
        })
    }

    /// Counts the free objects of `cache` in them. `slab` is the name of a slab's struct,
    /// `per_slab` its number of objects.
    pub(crate) fn free(
        &self,
        program: &Program,
        slab: &str,
        cache: VirtAddr,
        per_slab: u64,
    ) -> Result<u64, InspectError> {
        let Some(current) = self.current else {
            return Ok(0);
        };
        let base = program.pointer(cache, "kmem_cache", "cpu_slab")?;
        let mut free = 0_u64;
        for cpu in &self.cpus {
            let mine = program.per_cpu_at(base, *cpu)?;
            let pointer = |member| program.pointer(mine, "kmem_cache_cpu", member);
            let at = pointer(current)?;
            if at.0 != 0 {
                // Objects freed by other CPUs are in the slab's list; the rest is the CPU's own
                // list.
                free = free.saturating_add(free_in_slab(program, slab, at)?);
                let list = pointer("freelist")?;
                free = free.saturating_add(listed(program, cache, list, per_slab)?);
            }
            let mut next = match self.has_partial {
                true => pointer("partial")?,
                false => VirtAddr(0),
            };
            let mut seen = HashSet::new();
            while next.0 != 0 {
                if !seen.insert(next) {
                    return Err(damaged("a list of partial slabs", next));
                }
                free = free.saturating_add(free_in_slab(program, slab, next)?);
                next = program.pointer(next, slab, "next")?;
            }
        }
        Ok(free)
    }
}

/// Counts free objects in a slab's own list.
pub(crate) fn free_in_slab(
    program: &Program,
    slab: &str,
    at: VirtAddr,
) -> Result<u64, InspectError> {
    let objects = program.value(at, slab, "objects")?;
    let in_use = program.value(at, slab, "inuse")?;
    Ok(objects.saturating_sub(in_use))
}

/// Counts the objects of a list that starts at `first`.
fn listed(
    program: &Program,
    cache: VirtAddr,
    first: VirtAddr,
    per_slab: u64,
) -> Result<u64, InspectError> {
    let offset = program.value(cache, "kmem_cache", "offset")?;
    let size = program.value(cache, "kmem_cache", "size")?;
    let reach = size.saturating_mul(per_slab);
    // CONFIG_SLAB_FREELIST_HARDENED.
    let secret = match program.has("kmem_cache", "random") {
        true => Some(program.value(cache, "kmem_cache", "random")?),
        false => None,
    };
    let (mut at, mut count) = (first, 0);
    while at.0 != 0 {
        if count == per_slab {
            return Err(damaged("a list of free objects", at));
        }
        count += 1;
        let link = VirtAddr(at.0.wrapping_add(offset));
        let stored = program.number(link, 8)?;
        let candidates = match secret {
            // The link's address is byte-swapped since 5.7 (commit 1ad53d9fa3f6), unchanged
            // before.
            Some(secret) => [
                stored ^ secret ^ link.0.swap_bytes(),
                stored ^ secret ^ link.0,
            ],
            None => [stored, stored],
        };
        let in_slab = |next: &u64| *next == 0 || next.abs_diff(at.0) < reach;
        let next = candidates.into_iter().find(in_slab);
        at = VirtAddr(next.ok_or_else(|| damaged("a list of free objects", at))?);
    }
    Ok(count)
}

fn damaged(what: &str, address: VirtAddr) -> InspectError {
    InspectError::Damaged {
        what: what.into(),
        address,
        reason: "it is longer than its slabs allow".into(),
    }
}
