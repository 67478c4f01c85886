//! Iterates over red-black trees (include/linux/rbtree_types.h) and xarrays
//! (include/linux/xarray.h).

use super::command::{Link, Loop};
use super::item::{Item, Scope};
use super::linked::{Linked, MAX_ELEMENTS, named};
use crate::types::Shape;

/// Maximum height of a red-black tree: twice the logarithm of the number of its nodes.
const MAX_HEIGHT: usize = 128;
/// Addresses below are no nodes but marks, such as those of siblings (xa_is_node()).
const FIRST_NODE: u64 = 4096;

/// Visits the elements of a red-black tree in order.
pub(super) fn of_rb_root(
    scope: &Scope,
    command: &Loop,
    root: Item,
    visit: &mut dyn FnMut(Item),
) -> Result<(), String> {
    let linked = Linked::find(scope, command, "rb_node")?;
    let child = |node: u64, name: &str| -> Result<u64, String> {
        scope.read_pointer(scope.member(linked.link(node), name)?.address)
    };
    // Of rb_root_cached, the member of the rb_root in it.
    let mut node = scope.read_pointer(scope.member(root, "rb_node")?.address)?;
    let mut above: Vec<u64> = Vec::new();
    let mut count = 0;
    loop {
        while node != 0 {
            if above.len() == MAX_HEIGHT {
                return Err(format!("the tree is higher than {MAX_HEIGHT} at {node:#x}"));
            }
            above.push(node);
            node = child(node, "rb_left")?;
        }
        let Some(next) = above.pop() else {
            return Ok(());
        };
        if count == MAX_ELEMENTS {
            return Err(format!("the tree has more than {count} elements"));
        }
        count += 1;
        visit(linked.element(next));
        node = child(next, "rb_right")?;
    }
}

/// Visits the objects that an xarray points to, in the order of their indices. Entries that are
/// values (of the page cache, of pages that were evicted) are omitted.
pub(super) fn of_xarray(
    scope: &Scope,
    command: &Loop,
    array: Item,
    visit: &mut dyn FnMut(Item),
) -> Result<(), String> {
    let Link::Within(name, None) = &command.link else {
        return Err(
            "an xarray requires 'within STRUCT', where STRUCT is its elements' type".into(),
        );
    };
    let element = named(scope, name)?;
    let node = named(scope, "xa_node")?;
    let slots = scope.member(node, "slots")?;
    let Shape::Array(_, slot_count) = scope.resolve(slots.type_id)?.1.shape else {
        return Err("xa_node.slots is not an array".into());
    };
    let shift = scope.member(node, "shift")?.address;
    let head = scope.read_pointer(scope.member(array, "xa_head")?.address)?;
    // Entries and the shift that is above theirs, the next one last.
    let mut left = vec![(head, u64::MAX)];
    while let Some((entry, above)) = left.pop() {
        match entry & 3 {
            0 if entry != 0 => visit(Item {
                address: entry,
                ..element
            }),
            2 if entry > FIRST_NODE => {
                let at = entry - 2;
                let shift = scope.read_number(at.wrapping_add(shift), 1)?;
                // Levels become lower: nodes that lead to each other end here.
                if shift >= above {
                    return Err(format!("the node at {at:#x} has the shift {shift}"));
                }
                for index in (0..slot_count.min(64)).rev() {
                    let slot = at.wrapping_add(slots.address).wrapping_add(8 * index);
                    left.push((scope.read_pointer(slot)?, shift));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
