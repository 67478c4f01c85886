//! Iterates over what `for` names: arrays, lists, trees, xarrays, and variables of each CPU.

use super::command::{Link, Loop};
use super::item::{Item, Scope};
use super::linked::MAX_ELEMENTS;
use super::{lists, per_cpu, trees};
use crate::types::Shape;

/// Calls `visit` with every element, of nested loops with those of the innermost; an error reports
/// why an iteration stopped.
pub(super) fn for_each(
    scope: &Scope,
    command: &Loop,
    visit: &mut dyn FnMut(Item),
) -> Result<(), String> {
    from(scope, command, scope.symbol(&command.list)?, visit)
}

/// Iterates where the list's expression begins at `start`.
fn from(
    scope: &Scope,
    command: &Loop,
    start: Item,
    visit: &mut dyn FnMut(Item),
) -> Result<(), String> {
    let Some(inner) = &command.inner else {
        return of_one(scope, command, start, visit);
    };
    let mut outer = Vec::new();
    let mut ended = of_one(scope, command, start, &mut |item| outer.push(item));
    for item in outer {
        // A damaged element costs its own parts, not those of the others.
        ended = ended.and(from(scope, inner, item, visit));
    }
    ended
}

fn of_one(
    scope: &Scope,
    command: &Loop,
    start: Item,
    visit: &mut dyn FnMut(Item),
) -> Result<(), String> {
    let mut names = &command.list.members[..];
    let mut step = "next";
    // `head.next` denotes the list of `head` as well, if it is a list_head.
    if let Some((last, before)) = names.split_last()
        && matches!(&last[..], "next" | "prev")
        && let Some(item) = scope.follow(start, before)?
        && lists::is_list_head(scope, item)?
    {
        (names, step) = (before, last);
    }
    let Some(item) = scope.follow(start, names)? else {
        return Ok(());
    };
    if command.link == Link::PerCpu {
        return per_cpu::for_each(scope, item, visit);
    }
    let (type_id, found) = scope.resolve(item.type_id)?;
    if let Shape::Array(element, count) = found.shape {
        return of_array(scope, item.address, element, count, visit);
    }
    let Some((first, found)) = scope.structure(Item { type_id, ..item })? else {
        return Ok(());
    };
    match found.name.as_deref() {
        Some("list_head") => lists::of_list_head(scope, command, first, step, visit),
        Some("hlist_head") => lists::of_hlist(scope, command, first, visit),
        Some("rb_root" | "rb_root_cached") => trees::of_rb_root(scope, command, first, visit),
        Some("xarray") => trees::of_xarray(scope, command, first, visit),
        _ => lists::of_structs(scope, command, first, visit),
    }
}

fn of_array(
    scope: &Scope,
    address: u64,
    element: crate::types::TypeId,
    count: u64,
    visit: &mut dyn FnMut(Item),
) -> Result<(), String> {
    let size = scope.size(element)?;
    let (_, shape) = scope.resolve(element)?;
    if count > MAX_ELEMENTS {
        return Err(format!("an array of {count} elements"));
    }
    for index in 0..count {
        scope.step()?;
        let address = address.wrapping_add(size.wrapping_mul(index));
        let is_null = matches!(shape.shape, Shape::Pointer(_)) && scope.read_pointer(address)? == 0;
        if !is_null {
            visit(Item {
                address,
                type_id: element,
            });
        }
    }
    Ok(())
}
