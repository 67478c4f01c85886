//! What a type of the kernel is made of.

use bigiron_kernel::KernelError;
use bigiron_kernel::types::{Member, Shape, TypeId, TypeTable, parse_type, resolve, size_of};
use serde::Serialize;

use crate::declaration::declaration;

/// Structs in structs, and members in all: no kernel has a tenth of it, and a
/// damaged table may go in circles.
const MOST_DEPTH: usize = 32;
const MOST_MEMBERS: usize = 100_000;

/// A type and what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Definition {
    /// The type, as C writes it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its bytes; `None` for a function or what is only declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What a typedef stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stands_for: Option<String>,
    /// The members of a struct or union.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Field>,
    /// The names and values of an enumeration.
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
    /// Its name; a struct or union inside may have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// It with its type, as C declares it.
    pub declaration: String,
    /// Bytes from the start of the whole type.
    pub offset: u64,
    /// Of a bit field: its first bit in the byte at `offset`, and its bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<(u64, u64)>,
    /// Whether the struct or union inside, if it has no name, is a union.
    #[serde(skip)]
    pub is_union: bool,
    /// The members of a struct or union inside whose type has no name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Field>,
}

/// Looks a type or a function up: `task_struct`, `struct page`, `enum zone_type`,
/// `gfp_t`, `vfs_read`; `None` if there is none of that name. Of a struct and a
/// function of one name it is the struct, unless `()` stands behind it.
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
    let mut left = MOST_MEMBERS;
    Ok(Some(Definition {
        name: declaration(types, id, "")?,
        kind,
        size: size_of(types, id)?,
        stands_for,
        members: fields(types, target, 0, MOST_DEPTH, &mut left)?,
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
    left: &mut usize,
) -> Result<Vec<Field>, KernelError> {
    let members = types.members(outer)?;
    *left = left
        .checked_sub(members.len())
        .filter(|_| depth > 0)
        .ok_or_else(|| KernelError::Implausible {
            what: "a struct in the kernel's types".into(),
            found: format!("more than {MOST_DEPTH} levels or {MOST_MEMBERS} members"),
            expected: "fewer",
        })?;
    let field = |member: Member| {
        let offset = base.saturating_add(member.bit_offset / 8);
        let (inner, found) = behind_arrays(types, member.type_id)?;
        let is_open =
            found.name.is_none() && matches!(found.shape, Shape::Struct(_) | Shape::Union(_));
        let members = if is_open {
            fields(types, inner, offset, depth - 1, left)?
        } else {
            Vec::new()
        };
        Ok(Field {
            declaration: declaration(types, member.type_id, member.name.as_deref().unwrap_or(""))?,
            name: member.name,
            offset,
            bits: member.bit_size.map(|bits| (member.bit_offset % 8, bits)),
            is_union: matches!(found.shape, Shape::Union(_)),
            members,
        })
    };
    members.into_iter().map(field).collect()
}

/// The type of an array's elements; any other type is its own. A typedef has a
/// name, so what is behind it is not opened.
fn behind_arrays(
    types: &dyn TypeTable,
    mut id: TypeId,
) -> Result<(TypeId, bigiron_kernel::types::Type), KernelError> {
    let mut found = types.get(id)?;
    for _ in 0..MOST_DEPTH {
        id = match found.shape {
            Shape::Array(element, _) => element,
            Shape::Alias(to) if found.name.is_none() => to,
            _ => break,
        };
        found = types.get(id)?;
    }
    Ok((id, found))
}
