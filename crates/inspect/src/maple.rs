//! Walks the kernel's maple trees (include/linux/maple_tree.h), since 6.1.

use std::collections::HashSet;

use bigiron_format::VirtAddr;
use bigiron_kernel::types::Shape;

use crate::error::InspectError;
use crate::program::{Program, Walk};

/// Nodes are aligned; the lower bits of a pointer to one tell its type (MAPLE_NODE_MASK,
/// MAPLE_NODE_TYPE_SHIFT, MAPLE_NODE_TYPE_MASK).
const NODE_MASK: u64 = 0xff;
const TYPE_SHIFT: u32 = 3;
const TYPE_MASK: u64 = 0xf;
/// The lowest bits of an entry that is a pointer to a node, or a mark (xa_is_internal).
const TAG: u64 = 3;
const INTERNAL: u64 = 2;
const FIRST_NODE: u64 = 4096;
/// Maximum number of slots of a node: maple_dense has 31.
const MAX_SLOTS: u64 = 64;

/// The types of nodes (enum maple_type), by their structs. Those below the third are leaves.
const TYPES: [&str; 4] = [
    "maple_dense",
    "maple_range_64",
    "maple_range_64",
    "maple_arange_64",
];
const FIRST_INNER: u64 = 2;

/// A node that is to be visited: its encoded address, and the last index below it.
struct Left {
    entry: u64,
    max: u64,
    is_leaf_entry: bool,
}

impl Program<'_, '_> {
    /// Returns the objects that the maple tree at `tree` points to, in the order of their indices,
    /// `most` of them.
    pub fn maple_tree(&self, tree: VirtAddr, most: usize) -> Result<Walk, InspectError> {
        let root = self.value(tree, "maple_tree", "ma_root")?;
        let mut walk = Walk::default();
        let mut seen = HashSet::new();
        let mut left = vec![Left {
            entry: root,
            max: u64::MAX,
            is_leaf_entry: root & TAG != INTERNAL || root < FIRST_NODE,
        }];
        while let Some(next) = left.pop() {
            if next.is_leaf_entry {
                // Marks such as XA_ZERO_ENTRY are no objects.
                if next.entry == 0 || next.entry & TAG == INTERNAL {
                    continue;
                }
                if walk.items.len() == most {
                    walk.cut = Some(format!("more than {most} elements"));
                    break;
                }
                walk.items.push(VirtAddr(next.entry));
                continue;
            }
            let below = match seen.insert(next.entry & !NODE_MASK) {
                true => self.maple_node(next.entry, next.max),
                false => Err(InspectError::Damaged {
                    what: "a maple tree".into(),
                    address: tree,
                    reason: format!("it is cyclic at {:#x}", next.entry),
                }),
            };
            match below {
                Ok(below) => left.extend(below.into_iter().rev()),
                Err(error) => {
                    walk.cut.get_or_insert(error.to_string());
                }
            }
        }
        Ok(walk)
    }

    /// Returns the entries of a node, in order.
    fn maple_node(&self, entry: u64, max: u64) -> Result<Vec<Left>, InspectError> {
        let node = VirtAddr(entry & !NODE_MASK);
        let number = entry >> TYPE_SHIFT & TYPE_MASK;
        let damaged = || InspectError::Damaged {
            what: "a node of a maple tree".into(),
            address: node,
            reason: format!("it has the type {number}"),
        };
        let kind = TYPES.get(number as usize).ok_or_else(damaged)?;
        let slots = self.locate(kind, "slot")?;
        let Shape::Array(_, count) = self.shape(slots.type_id)? else {
            return Err(damaged());
        };
        // A dense node has an entry for each index.
        let pivots = self.locate(kind, "pivot").ok().map(|pivot| pivot.offset);
        let mut found = Vec::new();
        for index in 0..count.min(MAX_SLOTS) {
            let at = |offset: u64| VirtAddr(node.0.wrapping_add(offset).wrapping_add(8 * index));
            // The last slot has no pivot, and one that is 0 ends the node (mas_logical_pivot).
            let pivot = match pivots {
                Some(pivots) if index + 1 < count => match self.number(at(pivots), 8)? {
                    0 if index > 0 => max,
                    pivot => pivot,
                },
                _ => max,
            };
            found.push(Left {
                entry: self.number(at(slots.offset), 8)?,
                max: pivot,
                is_leaf_entry: number < FIRST_INNER,
            });
            if pivots.is_some() && pivot >= max {
                break;
            }
        }
        Ok(found)
    }
}
