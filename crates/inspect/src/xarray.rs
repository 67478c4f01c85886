//! Walks the kernel's xarrays (include/linux/xarray.h), which radix trees are as well.

use bigiron_format::VirtAddr;

use crate::error::InspectError;
use crate::program::{Program, Walk};

/// Addresses below are no nodes but marks, such as those of siblings (xa_is_node).
const FIRST_NODE: u64 = 4096;
/// The lowest bits of an entry: of a pointer to an object, and of one to a node.
const TAG: u64 = 3;
const OBJECT: u64 = 0;
const NODE: u64 = 2;
/// Slots of a node (XA_CHUNK_SIZE).
const SLOTS: u64 = 64;

impl Program<'_, '_> {
    /// Returns the objects that the xarray at `array` points to, in the order of their indices,
    /// `most` of them. Entries that are values are omitted.
    pub fn xarray(&self, array: VirtAddr, most: usize) -> Result<Walk, InspectError> {
        let slots = self.locate("xa_node", "slots")?.offset;
        let head = self.value(array, "xarray", "xa_head")?;
        let mut walk = Walk::default();
        // Entries and the shift that is above theirs, the next one last.
        let mut left = vec![(head, u64::MAX)];
        while let Some((entry, above)) = left.pop() {
            if entry & TAG == OBJECT && entry != 0 {
                if walk.items.len() == most {
                    walk.cut = Some(format!("more than {most} elements"));
                    break;
                }
                walk.items.push(VirtAddr(entry));
            }
            if entry & TAG != NODE || entry < FIRST_NODE {
                continue;
            }
            let node = VirtAddr(entry & !TAG);
            // Levels become lower: nodes that lead to each other end here.
            match self.value(node, "xa_node", "shift") {
                Ok(shift) if shift < above => {
                    for index in (0..SLOTS).rev() {
                        let slot = node.0.wrapping_add(slots).wrapping_add(8 * index);
                        left.push((self.number(VirtAddr(slot), 8)?, shift));
                    }
                }
                Ok(shift) => {
                    walk.cut
                        .get_or_insert(format!("the node at {node} has the shift {shift}"));
                }
                Err(error) => {
                    walk.cut.get_or_insert(error.to_string());
                }
            }
        }
        Ok(walk)
    }
}
