//! Iterates over lists: of list_heads, of hlists, and of structs that point to the next.

use super::command::{Link, Loop};
use super::item::{Item, Scope};
use super::linked::{Linked, MAX_ELEMENTS};
use crate::types::Shape;

/// Visits the elements of the list whose head is `head`; `step` is `next` or `prev`.
pub(super) fn of_list_head(
    scope: &Scope,
    command: &Loop,
    head: Item,
    step: &str,
    visit: &mut dyn FnMut(Item),
) -> Result<(), String> {
    let linked = Linked::find(scope, command, "list_head")?;
    let next = |address| scope.read_pointer(scope.member(linked.link(address), step)?.address);
    let begin = next(head.address)?;
    walk(begin, head.address, &next, &mut |node| {
        visit(linked.element(node));
    })
}

/// Visits the elements of an hlist, which ends with NULL.
pub(super) fn of_hlist(
    scope: &Scope,
    command: &Loop,
    head: Item,
    visit: &mut dyn FnMut(Item),
) -> Result<(), String> {
    let linked = Linked::find(scope, command, "hlist_node")?;
    let next = |address| scope.read_pointer(scope.member(linked.link(address), "next")?.address);
    let begin = scope.read_pointer(scope.member(head, "first")?.address)?;
    walk(begin, 0, &next, &mut |node| visit(linked.element(node)))
}

/// Visits `first` and the structs of its type that follow it.
pub(super) fn of_structs(
    scope: &Scope,
    command: &Loop,
    first: Item,
    visit: &mut dyn FnMut(Item),
) -> Result<(), String> {
    let member = match &command.link {
        Link::Via(member) => member,
        _ => "next",
    };
    let next = |address| {
        let node = Item { address, ..first };
        let next = scope.member(node, member)?;
        let (_, found) = scope.resolve(next.type_id)?;
        let Shape::Pointer(to) = found.shape else {
            return Err(format!("member '{member}' is not a pointer"));
        };
        if scope.resolve(to)?.1.name != scope.resolve(first.type_id)?.1.name {
            return Err(format!(
                "member '{member}' does not point to an element of the list"
            ));
        }
        scope.read_pointer(next.address)
    };
    visit(first);
    walk(next(first.address)?, first.address, &next, &mut |node| {
        visit(Item {
            address: node,
            ..first
        });
    })
}

/// Returns true if an item is a list_head or points to one.
pub(super) fn is_list_head(scope: &Scope, item: Item) -> Result<bool, String> {
    let (_, found) = scope.resolve(item.type_id)?;
    let found = match found.shape {
        Shape::Pointer(to) => scope.resolve(to)?.1,
        _ => found,
    };
    Ok(matches!(found.shape, Shape::Struct(_)) && found.name.as_deref() == Some("list_head"))
}

/// Follows links from `node` until NULL or `end`.
fn walk(
    mut node: u64,
    end: u64,
    next: &dyn Fn(u64) -> Result<u64, String>,
    visit: &mut dyn FnMut(u64),
) -> Result<(), String> {
    // Detect a cycle by Brent's algorithm: compare with a node that is replaced after each
    // power of two of steps.
    let (mut held, mut steps, mut power) = (0, 0_u64, 1_u64);
    let mut count = 0;
    while node != 0 && node != end {
        if node == held || count == MAX_ELEMENTS {
            return Err(format!(
                "the list does not end: it has {count} elements or more"
            ));
        }
        visit(node);
        count += 1;
        steps += 1;
        if steps == power {
            (held, steps, power) = (node, 0, power * 2);
        }
        node = next(node)?;
    }
    Ok(())
}
