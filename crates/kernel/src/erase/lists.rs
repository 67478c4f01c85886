//! Iterates over what `for` names: arrays, structs that point to the next, list_heads.

use super::command::{Link, Loop};
use super::item::{Item, Scope};
use crate::types::{Shape, structure};

/// Maximum number of list elements, above the number of tasks of any kernel (PID_MAX_LIMIT); a
/// damaged list may be endless.
const MAX_ELEMENTS: u64 = 4 << 20;

/// Calls `visit` with every element; an error reports why the iteration stopped.
pub(super) fn for_each(
    scope: &Scope,
    command: &Loop,
    visit: &mut dyn FnMut(Item),
) -> Result<(), String> {
    let head = scope.symbol(&command.list)?;
    let mut names = &command.list.members[..];
    let mut step = "next";
    // `head.next` denotes the list of `head` as well, if it is a list_head.
    if let Some((last, before)) = names.split_last()
        && matches!(&last[..], "next" | "prev")
        && let Some(item) = scope.follow(head, before)?
        && is_list_head(scope, item)?
    {
        (names, step) = (before, last);
    }
    let Some(item) = scope.follow(head, names)? else {
        return Ok(());
    };
    let (type_id, found) = scope.resolve(item.type_id)?;
    if let Shape::Array(element, count) = found.shape {
        let size = scope.size(element)?;
        let (_, shape) = scope.resolve(element)?;
        if count > MAX_ELEMENTS {
            return Err(format!("an array of {count} elements"));
        }
        for index in 0..count {
            scope.step()?;
            let address = item.address.wrapping_add(size.wrapping_mul(index));
            let is_null =
                matches!(shape.shape, Shape::Pointer(_)) && scope.read_pointer(address)? == 0;
            if !is_null {
                visit(Item {
                    address,
                    type_id: element,
                });
            }
        }
        return Ok(());
    }
    let item = Item { type_id, ..item };
    let Some((first, _)) = scope.structure(item)? else {
        return Ok(());
    };
    if is_list_head(scope, first)? {
        let Link::Within(name, member) = &command.link else {
            return Err("a list of this type requires 'within STRUCT:MEMBER', where MEMBER is its list_head".into());
        };
        let outer = structure(&scope.types, name).map_err(super::item::text)?;
        let type_id = outer.ok_or_else(|| format!("struct '{name}' not found"))?;
        let link = scope.member(
            Item {
                address: 0,
                type_id,
            },
            member,
        )?;
        if !is_list_head(scope, link)? {
            return Err(format!("member '{member}' is not a list_head"));
        }
        let next = |address| {
            let node = Item { address, ..first };
            scope.read_pointer(scope.member(node, step)?.address)
        };
        let begin = next(first.address)?;
        return walk(begin, first.address, &next, &mut |node| {
            visit(Item {
                address: node.wrapping_sub(link.address),
                type_id,
            });
        });
    }
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

fn is_list_head(scope: &Scope, item: Item) -> Result<bool, String> {
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
