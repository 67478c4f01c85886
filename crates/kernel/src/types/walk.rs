//! Walks types: aliases, sizes, members.

use std::collections::HashSet;

use super::{Member, Named, Shape, Type, TypeId, TypeTable};
use crate::error::KernelError;

/// Maximum depth of typedefs, qualifiers, nested arrays and structs. Kernels stay below a tenth
/// of it; a damaged table may be cyclic.
const MAX_DEPTH: usize = 64;

/// Maximum number of anonymous structs and unions in which a member is searched. Kernels stay
/// below 100.
const MAX_ANONYMOUS: usize = 4096;

/// The location of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberLocation {
    /// Offset in bytes from the start of the outer type; for a bit field, of its first byte.
    pub offset: u64,
    /// Type.
    pub type_id: TypeId,
    /// For a bit field: first bit in that byte, and number of bits.
    pub bits: Option<(u64, u64)>,
}

/// Resolves typedefs and qualifiers, and replaces a declaration by its definition if there is
/// one.
pub fn resolve(types: &dyn TypeTable, mut id: TypeId) -> Result<(TypeId, Type), KernelError> {
    for _ in 0..MAX_DEPTH {
        let found = types.get(id)?;
        match (found.shape, &found.name) {
            (Shape::Alias(to), _) => id = to,
            (Shape::Declaration, Some(name)) => {
                return match structure(types, name)? {
                    Some(id) => Ok((id, types.get(id)?)),
                    None => Ok((id, found)),
                };
            }
            _ => return Ok((id, found)),
        }
    }
    Err(circular("a typedef"))
}

/// Finds the struct or union named `name`, or the one that a typedef of that name denotes.
pub fn structure(types: &dyn TypeTable, name: &str) -> Result<Option<TypeId>, KernelError> {
    for named in [Named::Struct, Named::Union] {
        if let Some(id) = types.find(named, name)? {
            return Ok(Some(id));
        }
    }
    let Some(id) = types.find(Named::Typedef, name)? else {
        return Ok(None);
    };
    let mut id = id;
    for _ in 0..MAX_DEPTH {
        match types.get(id)?.shape {
            Shape::Alias(to) => id = to,
            Shape::Struct(_) | Shape::Union(_) => return Ok(Some(id)),
            _ => return Ok(None),
        }
    }
    Err(circular("a typedef"))
}

/// Returns the size of a type in bytes; `None` for a function or a declaration.
pub fn size_of(types: &dyn TypeTable, id: TypeId) -> Result<Option<u64>, KernelError> {
    let (mut id, mut count) = (id, 1_u64);
    for _ in 0..MAX_DEPTH {
        let (_, found) = resolve(types, id)?;
        let size = match found.shape {
            Shape::Array(element, elements) => {
                count = count.saturating_mul(elements);
                id = element;
                continue;
            }
            // The size of an address of a 64-bit kernel; no other is supported.
            Shape::Pointer(_) => 8,
            Shape::Base(size)
            | Shape::Enumeration(size)
            | Shape::Struct(size)
            | Shape::Union(size) => size,
            Shape::Void => 0,
            Shape::Declaration | Shape::Function | Shape::Alias(_) => return Ok(None),
        };
        return Ok(Some(size.saturating_mul(count)));
    }
    Err(circular("an array"))
}

/// Finds the member `name` of a struct or union, also in anonymous members.
pub fn find_member(
    types: &dyn TypeTable,
    outer: TypeId,
    name: &str,
) -> Result<Option<MemberLocation>, KernelError> {
    let mut search = Search {
        types,
        name,
        seen: HashSet::from([outer]),
    };
    search.find(outer, 0, MAX_DEPTH)
}

/// Finds the member `name` of a struct or union, also in its members that are structs or unions.
pub fn find_nested_member(
    types: &dyn TypeTable,
    outer: TypeId,
    name: &str,
) -> Result<Option<MemberLocation>, KernelError> {
    let mut search = Search {
        types,
        name,
        seen: HashSet::from([outer]),
    };
    if let Some(location) = search.find(outer, 0, MAX_DEPTH)? {
        return Ok(Some(location));
    }
    search.find_nested(outer, 0, &mut HashSet::from([outer]), MAX_DEPTH)
}

struct Search<'a> {
    types: &'a dyn TypeTable,
    name: &'a str,
    /// The types searched so far. What one does not have, it does not have at another offset
    /// either: without this, each level of a damaged table that refers twice to the next one
    /// would double the work.
    seen: HashSet<TypeId>,
}

impl Search<'_> {
    fn find(
        &mut self,
        outer: TypeId,
        base: u64,
        depth: usize,
    ) -> Result<Option<MemberLocation>, KernelError> {
        if depth == 0 {
            return Err(circular("a struct"));
        }
        let members = self.types.members(outer)?;
        if let Some(member) = members
            .iter()
            .find(|member| member.name.as_deref() == Some(self.name))
        {
            return Ok(Some(location(member, base)));
        }
        for member in members.iter().filter(|member| member.name.is_none()) {
            let (inner, found) = resolve(self.types, member.type_id)?;
            let is_open = matches!(found.shape, Shape::Struct(_) | Shape::Union(_));
            if !is_open || !self.seen.insert(inner) {
                continue;
            }
            if self.seen.len() > MAX_ANONYMOUS {
                return Err(KernelError::Implausible {
                    what: "a struct in the kernel's types".into(),
                    found: format!("more than {MAX_ANONYMOUS} anonymous structs in it"),
                    expected: "fewer",
                });
            }
            let base = base.saturating_add(member.bit_offset / 8);
            if let Some(location) = self.find(inner, base, depth - 1)? {
                return Ok(Some(location));
            }
        }
        Ok(None)
    }

    /// Searches the members of `outer` that are structs or unions, each with all that is in it.
    /// `nested` are the types whose members were searched in this way.
    fn find_nested(
        &mut self,
        outer: TypeId,
        base: u64,
        nested: &mut HashSet<TypeId>,
        depth: usize,
    ) -> Result<Option<MemberLocation>, KernelError> {
        if depth == 0 {
            return Err(circular("a struct"));
        }
        for member in self.types.members(outer)? {
            let (inner, found) = resolve(self.types, member.type_id)?;
            if !matches!(found.shape, Shape::Struct(_) | Shape::Union(_)) {
                continue;
            }
            let base = base.saturating_add(member.bit_offset / 8);
            let mut location = None;
            if self.seen.insert(inner) {
                location = self.find(inner, base, MAX_DEPTH)?;
            }
            if location.is_none() && nested.insert(inner) {
                location = self.find_nested(inner, base, nested, depth - 1)?;
            }
            if location.is_some() {
                return Ok(location);
            }
        }
        Ok(None)
    }
}

fn location(member: &Member, base: u64) -> MemberLocation {
    MemberLocation {
        offset: base.saturating_add(member.bit_offset / 8),
        type_id: member.type_id,
        bits: member.bit_size.map(|size| (member.bit_offset % 8, size)),
    }
}

fn circular(what: &str) -> KernelError {
    KernelError::Implausible {
        what: format!("{what} in the kernel's types"),
        found: format!("nested more than {MAX_DEPTH} deep"),
        expected: "an end",
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Structs without a name, of which each has the next one twice.
    struct Twice {
        levels: u64,
        /// Number of lists of members returned.
        lists: Cell<u64>,
    }

    impl TypeTable for Twice {
        fn get(&self, id: TypeId) -> Result<Type, KernelError> {
            let shape = match id.0 > self.levels {
                true => Shape::Base(4),
                false => Shape::Struct(8),
            };
            Ok(Type { name: None, shape })
        }

        fn members(&self, id: TypeId) -> Result<Vec<Member>, KernelError> {
            self.lists.set(self.lists.get() + 1);
            let member = |name: Option<&str>, bit_offset| Member {
                name: name.map(str::to_owned),
                type_id: TypeId(id.0 + 1),
                bit_offset,
                bit_size: None,
            };
            Ok(match id.0 == self.levels {
                true => vec![member(Some("end"), 0)],
                false => vec![member(None, 0), member(None, 32)],
            })
        }

        fn enumerators(&self, _id: TypeId) -> Result<Vec<(String, i64)>, KernelError> {
            Ok(Vec::new())
        }

        fn find(&self, _named: Named, _name: &str) -> Result<Option<TypeId>, KernelError> {
            Ok(None)
        }

        fn enumerator(&self, _name: &str) -> Result<Option<i64>, KernelError> {
            Ok(None)
        }

        fn variable(&self, _: &str, _: Option<u64>) -> Result<Option<TypeId>, KernelError> {
            Ok(None)
        }
    }

    #[test]
    fn each_anonymous_struct_is_searched_once() {
        for levels in [1, 10, 20, MAX_DEPTH as u64] {
            for (name, found) in [("end", Some(0)), ("missing", None)] {
                let types = Twice {
                    levels,
                    lists: Cell::new(0),
                };
                let member = find_member(&types, TypeId(1), name).unwrap();
                assert_eq!(member.map(|member| member.offset), found);
                assert!(types.lists.get() <= levels, "{levels} levels");
            }
        }
    }

    #[test]
    fn each_nested_struct_is_searched_once_in_each_way() {
        for levels in [1, 10, 20, MAX_DEPTH as u64 - 1] {
            for (name, found) in [("end", Some(0)), ("missing", None)] {
                let types = Twice {
                    levels,
                    lists: Cell::new(0),
                };
                let member = find_nested_member(&types, TypeId(1), name).unwrap();
                assert_eq!(member.map(|member| member.offset), found);
                assert!(types.lists.get() <= 2 * levels, "{levels} levels");
            }
        }
    }

    #[test]
    fn types_without_end_are_an_error() {
        let types = Twice {
            levels: MAX_DEPTH as u64 + 1,
            lists: Cell::new(0),
        };
        assert!(find_member(&types, TypeId(1), "end").is_err());
    }
}
