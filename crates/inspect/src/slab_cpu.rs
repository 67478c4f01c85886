//! Slab objects on per-CPU freelists.

use bigiron_format::VirtAddr;

use crate::error::InspectError;
use crate::program::Program;

/// Maximum number of slabs and objects read, over all caches: ten times what a machine of 8192
/// CPUs has. In a damaged kernel every cache may lead to the same list.
const MAX_ELEMENTS: u64 = 1 << 24;

/// The remaining budget of list elements.
pub(crate) struct ElementBudget(u64);

impl ElementBudget {
    pub(crate) fn new() -> Self {
        Self(MAX_ELEMENTS)
    }

    /// Takes one element, at `address`, from the budget.
    pub(crate) fn take(&mut self, address: VirtAddr) -> Result<(), InspectError> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| InspectError::Damaged {
            what: "a list of slabs".into(),
            address,
            reason: format!("all caches together have more than {MAX_ELEMENTS} slabs and objects"),
        })?;
        Ok(())
    }
}

/// Counts free objects of `cache` in per-CPU slabs: struct kmem_cache_cpu. `slab` is the name
/// of a slab's struct, `per_slab` its number of objects.
pub(crate) fn free(
    program: &Program,
    slab: &str,
    cache: VirtAddr,
    per_slab: u64,
    steps: &mut ElementBudget,
) -> Result<u64, InspectError> {
    // Kernels with sheaves only have no per-CPU slabs.
    if !program.has("kmem_cache", "cpu_slab") {
        return Ok(0);
    }
    let base = program.pointer(cache, "kmem_cache", "cpu_slab")?;
    let current = match program.has("kmem_cache_cpu", "slab") {
        true => "slab",
        false => "page",
    };
    let has_partial = program.has("kmem_cache_cpu", "partial");
    let mut free = 0_u64;
    for cpu in program.cpus_in(program.symbol("__cpu_possible_mask")?)? {
        let mine = program.per_cpu_at(base, cpu)?;
        steps.take(mine)?;
        let pointer = |member| program.pointer(mine, "kmem_cache_cpu", member);
        let at = pointer(current)?;
        if at.0 != 0 {
            // Objects freed by other CPUs are in the slab's list; the rest is the CPU's own
            // list.
            free = free.saturating_add(free_in_slab(program, slab, at)?);
            let list = pointer("freelist")?;
            free = free.saturating_add(listed(program, cache, list, per_slab, steps)?);
        }
        let mut next = match has_partial {
            true => pointer("partial")?,
            false => VirtAddr(0),
        };
        while next.0 != 0 {
            steps.take(next)?;
            free = free.saturating_add(free_in_slab(program, slab, next)?);
            next = program.pointer(next, slab, "next")?;
        }
    }
    Ok(free)
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
    steps: &mut ElementBudget,
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
        steps.take(at)?;
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
