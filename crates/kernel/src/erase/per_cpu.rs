//! The variable that each CPU has (include/asm-generic/percpu.h).

use super::item::{Item, Scope};
use crate::types::Shape;

/// Maximum number of CPUs (NR_CPUS is at most 8192).
const MAX_CPUS: u64 = 1 << 14;

/// Calls `visit` with the variable of each possible CPU: of the per-CPU variable that `item` is, or
/// of what it points to if it is a pointer.
pub(super) fn for_each(
    scope: &Scope,
    item: Item,
    visit: &mut dyn FnMut(Item),
) -> Result<(), String> {
    let base = match scope.resolve(item.type_id)?.1.shape {
        // alloc_percpu() returns an address that is one of no CPU.
        Shape::Pointer(to) => Item {
            address: scope.read_pointer(item.address)?,
            type_id: to,
        },
        _ => item,
    };
    if base.address == 0 && base != item {
        return Ok(());
    }
    let Some(offsets) = scope.address("__per_cpu_offset") else {
        // A kernel for one CPU.
        visit(base);
        return Ok(());
    };
    let count = scope.address("nr_cpu_ids");
    let count = scope.read_number(count.ok_or("symbol 'nr_cpu_ids' not found")?, 4)?;
    // Other CPUs below nr_cpu_ids have no memory of their own.
    let possible = scope.address("__cpu_possible_mask");
    for cpu in 0..count.min(MAX_CPUS) {
        let word = |mask: u64| scope.read_pointer(mask.wrapping_add(cpu / 64 * 8));
        let is_possible = match possible {
            Some(mask) => word(mask)? >> (cpu % 64) & 1 == 1,
            None => true,
        };
        if is_possible {
            let offset = scope.read_pointer(offsets.wrapping_add(8 * cpu))?;
            visit(Item {
                address: base.address.wrapping_add(offset),
                ..base
            });
        }
    }
    Ok(())
}
