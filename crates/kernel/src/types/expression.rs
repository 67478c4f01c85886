//! Types written as text: a name followed by stars and array lengths.

use super::{Encoding, Named, Prototype, Shape, Type, TypeId, TypeTable, structure};
use crate::error::KernelError;

/// Maximum number of pointers and arrays around a name.
const MAX_LAYERS: usize = 8;

/// A type from a text such as `task_struct`, `char*` or `list_head[16]`: the name of a struct,
/// union, typedef, enumeration or base type, followed by its pointers and array lengths from
/// the inside out. Holds the innermost type and the layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The type that the name denotes.
    pub id: TypeId,
    /// The layers, innermost first: `None` for a pointer, else the length of an array.
    pub layers: Vec<Option<u64>>,
}

/// Parses `text`; returns `None` if there is no such type.
pub fn parse_type(types: &dyn TypeTable, text: &str) -> Result<Option<Written>, KernelError> {
    let end = text.find(['*', '[']).unwrap_or(text.len());
    let (name, mut rest) = (text[..end].trim(), text[end..].trim());
    let mut layers = Vec::new();
    while !rest.is_empty() && layers.len() < MAX_LAYERS {
        if let Some(after) = rest.strip_prefix('*') {
            layers.push(None);
            rest = after.trim_start();
            continue;
        }
        let array = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let Some((count, after)) = array else {
            return Ok(None);
        };
        let Ok(count) = count.trim().parse() else {
            return Ok(None);
        };
        layers.push(Some(count));
        rest = after.trim_start();
    }
    if !rest.is_empty() {
        return Ok(None);
    }
    if name == "void" {
        let id = TypeId::VOID;
        return Ok(Some(Written { id, layers }));
    }
    if let Some(id) = structure(types, name)? {
        return Ok(Some(Written { id, layers }));
    }
    for named in [Named::Base, Named::Typedef, Named::Enumeration] {
        if let Some(id) = types.find(named, name)? {
            return Ok(Some(Written { id, layers }));
        }
    }
    Ok(None)
}

/// A table extended by types that were given as text.
pub struct WithAddedTypes<'a> {
    table: &'a dyn TypeTable,
    added: std::cell::RefCell<Vec<Shape>>,
}

/// Number of the first added type; no table has as many types.
const FIRST_ADDED: u64 = 1 << 62;

impl<'a> WithAddedTypes<'a> {
    /// Creates an extension of `table` without added types.
    pub fn new(table: &'a dyn TypeTable) -> Self {
        Self {
            table,
            added: Default::default(),
        }
    }

    /// Adds a type given as text; returns `None` if there is no such type.
    pub fn add(&self, text: &str) -> Result<Option<TypeId>, KernelError> {
        let Some(written) = parse_type(self.table, text)? else {
            return Ok(None);
        };
        let mut added = self.added.borrow_mut();
        let mut id = written.id;
        for layer in written.layers {
            added.push(match layer {
                None => Shape::Pointer(id),
                Some(count) => Shape::Array(id, count),
            });
            id = TypeId(FIRST_ADDED + added.len() as u64 - 1);
        }
        Ok(Some(id))
    }

    fn added(&self, id: TypeId) -> Option<Shape> {
        let index = usize::try_from(id.0.checked_sub(FIRST_ADDED)?).ok()?;
        self.added.borrow().get(index).copied()
    }
}

impl TypeTable for WithAddedTypes<'_> {
    fn get(&self, id: TypeId) -> Result<Type, KernelError> {
        match self.added(id) {
            Some(shape) => Ok(Type { name: None, shape }),
            None => self.table.get(id),
        }
    }

    fn members(&self, id: TypeId) -> Result<Vec<super::Member>, KernelError> {
        match self.added(id) {
            Some(_) => Ok(Vec::new()),
            None => self.table.members(id),
        }
    }

    fn enumerators(&self, id: TypeId) -> Result<Vec<(String, i64)>, KernelError> {
        match self.added(id) {
            Some(_) => Ok(Vec::new()),
            None => self.table.enumerators(id),
        }
    }

    fn find(&self, named: Named, name: &str) -> Result<Option<TypeId>, KernelError> {
        self.table.find(named, name)
    }

    fn enumerator(&self, name: &str) -> Result<Option<i64>, KernelError> {
        self.table.enumerator(name)
    }

    fn variable(&self, name: &str, address: Option<u64>) -> Result<Option<TypeId>, KernelError> {
        self.table.variable(name, address)
    }

    fn function(&self, name: &str) -> Result<Option<TypeId>, KernelError> {
        self.table.function(name)
    }

    fn prototype(&self, id: TypeId) -> Result<Option<Prototype>, KernelError> {
        match self.added(id) {
            Some(_) => Ok(None),
            None => self.table.prototype(id),
        }
    }

    fn keyword(&self, id: TypeId) -> Result<Option<&'static str>, KernelError> {
        match self.added(id) {
            Some(_) => Ok(None),
            None => self.table.keyword(id),
        }
    }

    fn encoding(&self, id: TypeId) -> Result<Encoding, KernelError> {
        match self.added(id) {
            Some(_) => Ok(Encoding::Unknown),
            None => self.table.encoding(id),
        }
    }
}
