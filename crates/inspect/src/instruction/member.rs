//! The member of a struct at an offset.

use bigiron_kernel::types::{Shape, TypeId, TypeTable, resolve, size_of};

/// Maximum nesting depth.
const MAX_DEPTH: usize = 16;

/// Returns the path and the type of the innermost member that starts at an offset of a struct.
/// `None` if there is none, or members of a union share the place.
pub fn at(types: &dyn TypeTable, outer: TypeId, offset: u64) -> Option<(String, TypeId)> {
    let mut path = String::new();
    let (mut id, mut left) = (outer, offset);
    for _ in 0..MAX_DEPTH {
        let (inner, found) = resolve(types, id).ok()?;
        match found.shape {
            Shape::Struct(_) | Shape::Union(_) => {
                let members = types.members(inner).ok()?;
                let holds = |member: &&bigiron_kernel::types::Member| {
                    let start = member.bit_offset / 8;
                    let size = size_of(types, member.type_id).ok().flatten().unwrap_or(0);
                    member.bit_size.is_none() && start <= left && left - start < size
                };
                let mut holding = members.iter().filter(holds);
                let member = holding.next()?;
                if holding.next().is_some() {
                    return None;
                }
                left -= member.bit_offset / 8;
                id = member.type_id;
                if let Some(name) = &member.name {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                }
            }
            Shape::Array(element, _) => {
                let size = size_of(types, element)
                    .ok()
                    .flatten()
                    .filter(|size| *size > 0)?;
                path.push_str(&format!("[{}]", left / size));
                left %= size;
                id = element;
            }
            _ => return (left == 0 && !path.is_empty()).then_some((path, id)),
        }
    }
    None
}
