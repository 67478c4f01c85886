//! Definitions of the kernel's types.

use bigiron_kernel::types::{Member, Shape, TypeId, TypeTable, parse_type, resolve, size_of};
use bigiron_kernel::{KernelError, Steps};
use serde::Serialize;

use crate::declaration::declaration;

/// Maximum nesting depth, and maximum number of members, of which each 64 bytes of text count
/// as one. Kernels stay below a tenth of it; a damaged table may be cyclic.
const MAX_DEPTH: usize = 32;
const MAX_MEMBERS: u64 = 100_000;
const TEXT_PER_MEMBER: usize = 64;

/// A type and its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Definition {
    /// The type, in C syntax.
    pub name: String,
    /// Kind.
    pub kind: Kind,
    /// Size in bytes; `None` for a function or a declaration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The type that a typedef denotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stands_for: Option<String>,
    /// Members of a struct or union.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Field>,
    /// Names and values of an enumeration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(String, i64)>,
}

/// Kinds of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A struct.
    Struct,
    /// A union.
    Union,
    /// An enumeration.
    Enumeration,
    /// A function.
    Function,
    /// Anything else.
    Other,
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Name; an anonymous struct or union has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// C declaration of the member.
    pub declaration: String,
    /// Offset in bytes from the start of the whole type.
    pub offset: u64,
    /// For a bit field: first bit in the byte at `offset`, and number of bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<(u64, u64)>,
    /// True if the anonymous member is a union.
    #[serde(skip)]
    pub is_union: bool,
    /// Members of an anonymous struct or union.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Field>,
}

/// Looks up a type or function: `task_struct`, `struct page`, `enum zone_type`, `gfp_t`,
/// `vfs_read`; returns `None` if there is none. If a struct and a function share a name, the
/// struct is returned, unless the name is followed by `()`.
pub fn define(types: &dyn TypeTable, text: &str) -> Result<Option<Definition>, KernelError> {
    let words = ["struct ", "union ", "enum "];
    let text = text.trim();
    let bare = words
        .iter()
        .find_map(|word| text.strip_prefix(word))
        .unwrap_or(text);
    let written = match bare.strip_suffix("()") {
        Some(_) => None,
        None => parse_type(types, bare)?,
    };
    let Some(written) = written else {
        return function(types, bare.strip_suffix("()").unwrap_or(bare));
    };
    if !written.layers.is_empty() {
        return Ok(None);
    }
    let id = written.id;
    let found = types.get(id)?;
    let (target, behind) = resolve(types, id)?;
    let kind = match behind.shape {
        Shape::Struct(_) => Kind::Struct,
        Shape::Union(_) => Kind::Union,
        Shape::Enumeration(_) => Kind::Enumeration,
        _ => Kind::Other,
    };
    let stands_for = match found.shape {
        Shape::Alias(to) => Some(declaration(types, to, "")?),
        _ => None,
    };
    Ok(Some(Definition {
        name: declaration(types, id, "")?,
        kind,
        size: size_of(types, id)?,
        stands_for,
        members: fields(types, target, 0, MAX_DEPTH, &Steps::new(MAX_MEMBERS))?,
        values: types.enumerators(target)?,
    }))
}

fn function(types: &dyn TypeTable, name: &str) -> Result<Option<Definition>, KernelError> {
    let Some(id) = types.function(name)? else {
        return Ok(None);
    };
    Ok(Some(Definition {
        name: declaration(types, id, name)?,
        kind: Kind::Function,
        size: None,
        stands_for: None,
        members: Vec::new(),
        values: Vec::new(),
    }))
}

fn fields(
    types: &dyn TypeTable,
    outer: TypeId,
    base: u64,
    depth: usize,
    steps: &Steps,
) -> Result<Vec<Field>, KernelError> {
    let too_many = || KernelError::Implausible {
        what: "a struct in the kernel's types".into(),
        found: format!("more than {MAX_DEPTH} levels or {MAX_MEMBERS} members"),
        expected: "fewer",
    };
    if depth == 0 {
        return Err(too_many());
    }
    let members = types.members(outer)?;
    if !steps.take(members.len() as u64) {
        return Err(too_many());
    }
    let field = |member: Member| {
        let offset = base.saturating_add(member.bit_offset / 8);
        let (inner, found) = behind_arrays(types, member.type_id)?;
        let is_open =
            found.name.is_none() && matches!(found.shape, Shape::Struct(_) | Shape::Union(_));
        let members = if is_open {
            fields(types, inner, offset, depth - 1, steps)?
        } else {
            Vec::new()
        };
        let declaration = declaration(types, member.type_id, member.name.as_deref().unwrap_or(""))?;
        if !steps.take((declaration.len() / TEXT_PER_MEMBER) as u64) {
            return Err(too_many());
        }
        Ok(Field {
            declaration,
            name: member.name,
            offset,
            bits: member.bit_size.map(|bits| (member.bit_offset % 8, bits)),
            is_union: matches!(found.shape, Shape::Union(_)),
            members,
        })
    };
    members.into_iter().map(field).collect()
}

/// Returns the type of an array's elements, or the type itself if it is not an array. Typedefs
/// are not resolved.
fn behind_arrays(
    types: &dyn TypeTable,
    mut id: TypeId,
) -> Result<(TypeId, bigiron_kernel::types::Type), KernelError> {
    let mut found = types.get(id)?;
    for _ in 0..MAX_DEPTH {
        id = match found.shape {
            Shape::Array(element, _) => element,
            Shape::Alias(to) if found.name.is_none() => to,
            _ => break,
        };
        found = types.get(id)?;
    }
    Ok((id, found))
}
