//! The memory that a command names.

use super::command::{Amount, Erase};
use super::item::{Item, Scope};
use crate::types::{Shape, TypeId};

/// Maximum number of bytes per command; more is a mistake.
const MAX_BYTES: u64 = 16 << 30;

/// Returns the virtual range that a command erases; `None` if it is empty.
pub(super) fn extent(
    scope: &Scope,
    erase: &Erase,
    element: Option<Item>,
) -> Result<Option<(u64, u64)>, String> {
    let start = match element {
        Some(item) => item,
        None => scope.symbol(&erase.target)?,
    };
    let Some(item) = scope.follow(start, &erase.target.members)? else {
        return Ok(None);
    };
    let (_, found) = scope.resolve(item.type_id)?;
    let (address, by_type) = match found.shape {
        Shape::Pointer(_) if erase.amount == Amount::Nullify => {
            return Ok(Some((item.address, 8)));
        }
        _ if erase.amount == Amount::Nullify => {
            return Err(format!(
                "'{}' is not a pointer, so it cannot be nullified",
                erase.target.text
            ));
        }
        Shape::Pointer(to) => match scope.read_pointer(item.address)? {
            0 => return Ok(None),
            address => (address, pointed_size(scope, erase, address, to)?),
        },
        Shape::Function => return Err(format!("'{}' is a function", erase.target.text)),
        _ if erase.amount == Amount::ByType => (item.address, scope.size(item.type_id)?),
        _ => (item.address, 0),
    };
    let len = match &erase.amount {
        Amount::ByType | Amount::Nullify => by_type,
        Amount::Bytes(len) => *len,
        Amount::Variable(size) => {
            let start = match (element, size.symbol == erase.target.symbol) {
                (Some(item), true) => item,
                _ => scope.symbol(size)?,
            };
            match scope.follow(start, &size.members)? {
                Some(item) => value(scope, item, &size.text)?,
                None => 0,
            }
        }
    };
    if len > MAX_BYTES {
        return Err(format!("{len} bytes are too many to erase"));
    }
    Ok((len > 0).then_some((address, len)))
}

/// Default size of the target of a pointer.
fn pointed_size(scope: &Scope, erase: &Erase, address: u64, to: TypeId) -> Result<u64, String> {
    if erase.amount != Amount::ByType {
        return Ok(0);
    }
    let (_, found) = scope.resolve(to)?;
    match (found.shape, found.name.as_deref()) {
        (Shape::Void | Shape::Function | Shape::Declaration, _) => Err(format!(
            "the target of '{}' has no size: add 'size' or 'nullify'",
            erase.target.text
        )),
        (Shape::Base(_), Some("char")) => scope.string_length(address),
        _ => scope.size(to),
    }
}

/// Reads the variable that holds a size; a negative value counts as none.
fn value(scope: &Scope, item: Item, name: &str) -> Result<u64, String> {
    let (_, found) = scope.resolve(item.type_id)?;
    let (address, found) = match found.shape {
        Shape::Pointer(to) => (scope.read_pointer(item.address)?, scope.resolve(to)?.1),
        _ => (item.address, found),
    };
    match found.shape {
        Shape::Base(size) | Shape::Enumeration(size) if size <= 8 => {
            let value = scope.read_number(address, size)?;
            Ok(if value > i64::MAX as u64 { 0 } else { value })
        }
        _ => Err(format!(
            "size symbol or member '{name}' is not of a base type"
        )),
    }
}
