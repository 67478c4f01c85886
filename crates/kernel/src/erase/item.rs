//! Resolves expressions to kernel data: an address and a type.

use std::cell::RefCell;
use std::collections::HashMap;

use bigiron_format::VirtAddr;

use super::command::Expression;
use crate::arch::Leaf;
use crate::error::KernelError;
use crate::kernel_memory::KernelMemory;
use crate::steps::Steps;
use crate::symbols::Symbols;
use crate::types::{
    self, MemberLocation, Shape, Type, TypeId, TypeTable, WithAddedTypes, find_nested_member,
    size_of,
};

/// Maximum number of bytes erased of a string without a length, as in makedumpfile.
const MAX_STRING: usize = 1024;
/// Maximum depth of pointers to pointers.
const MAX_DEPTH: usize = 64;
/// Steps that are allowed in any dump.
const FREE_STEPS: u64 = 1 << 20;

/// Kernel memory with known physical addresses.
pub trait EraseMemory: KernelMemory {
    /// Translates an address; returns `None` if it is not mapped.
    fn translate(&self, address: VirtAddr) -> Result<Option<Leaf>, KernelError>;
}

/// A variable, a member, or a list element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(super) address: u64,
    pub(super) type_id: TypeId,
}

/// Symbols and types in which expressions are resolved.
pub(super) struct Scope<'a> {
    pub(super) memory: &'a dyn EraseMemory,
    symbols: &'a Symbols,
    pub(super) types: WithAddedTypes<'a>,
    /// KASLR offset from the linked address.
    moved: u64,
    found: RefCell<HashMap<String, Item>>,
    /// Bytes of the dump's memory.
    size: u64,
    steps: Steps,
    members: RefCell<HashMap<(TypeId, String), Option<MemberLocation>>>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(
        memory: &'a dyn EraseMemory,
        symbols: &'a Symbols,
        types: &'a dyn TypeTable,
        moved: u64,
    ) -> Self {
        Self {
            memory,
            symbols,
            types: WithAddedTypes::new(types),
            moved,
            found: RefCell::default(),
            size: memory.size_up_to(u64::MAX),
            steps: Steps::new(0),
            members: RefCell::default(),
        }
    }

    /// Begins a piece of work, which has steps of its own: a command, or what follows all of them.
    /// Each takes a step for `bytes` of the dump's memory.
    pub(super) fn renew_steps(&mut self, bytes: u64) {
        self.steps = Steps::new(FREE_STEPS.saturating_add(self.size / bytes));
    }

    /// Adds the steps of one more piece of work.
    pub(super) fn add_steps(&self, bytes: u64) {
        self.steps.add(FREE_STEPS.saturating_add(self.size / bytes));
    }

    /// Takes a step.
    pub(super) fn step(&self) -> Result<(), String> {
        match self.steps.take(1) {
            true => Ok(()),
            false => Err(
                "it has more elements or bytes than the dump's memory can hold: the dump \
                          is damaged, and the rest is not used"
                    .into(),
            ),
        }
    }

    /// Returns the address of a symbol.
    pub(super) fn address(&self, symbol: &str) -> Option<u64> {
        Some(self.symbols.find(symbol)?.address.0)
    }

    /// Resolves the variable at the start of an expression.
    pub(super) fn symbol(&self, expression: &Expression) -> Result<Item, String> {
        let Expression {
            symbol,
            written_type,
            ..
        } = expression;
        let key = format!("{symbol}:{}", written_type.as_deref().unwrap_or_default());
        if let Some(item) = self.found.borrow().get(&key) {
            return Ok(*item);
        }
        let found = self.symbols.find(symbol);
        let address = found.ok_or_else(|| format!("symbol '{symbol}' not found"))?;
        let address = address.address.0;
        let type_id = match written_type {
            Some(written) => self
                .types
                .add(written)
                .map_err(text)?
                .ok_or_else(|| format!("type '{written}' not found"))?,
            None => self
                .types
                .variable(symbol, Some(address.wrapping_sub(self.moved)))
                .map_err(text)?
                .ok_or_else(|| {
                    format!(
                        "the type of '{symbol}' is not known. BTF has the types of few variables: \
                         write '{symbol}:TYPE', or give a vmlinux with debug information"
                    )
                })?,
        };
        let item = Item { address, type_id };
        self.found.borrow_mut().insert(key, item);
        Ok(item)
    }

    /// Returns the type without typedefs and qualifiers.
    pub(super) fn resolve(&self, id: TypeId) -> Result<(TypeId, Type), String> {
        types::resolve(&self.types, id).map_err(text)
    }

    pub(super) fn size(&self, id: TypeId) -> Result<u64, String> {
        let size = size_of(&self.types, id).map_err(text)?;
        size.ok_or_else(|| "its size is not known".into())
    }

    /// Resolves the members `names` of `item`; returns `None` if a pointer on the path is NULL.
    pub(super) fn follow(&self, item: Item, names: &[String]) -> Result<Option<Item>, String> {
        let mut item = item;
        for name in names {
            let Some((outer, _)) = self.structure(item)? else {
                return Ok(None);
            };
            item = self.member(outer, name)?;
        }
        Ok(Some(item))
    }

    /// Returns the struct or union that `item` is or points to, with its type; `None` if the
    /// pointer is NULL.
    pub(super) fn structure(&self, mut item: Item) -> Result<Option<(Item, Type)>, String> {
        for _ in 0..MAX_DEPTH {
            let (type_id, found) = self.resolve(item.type_id)?;
            item.type_id = type_id;
            match found.shape {
                Shape::Struct(_) | Shape::Union(_) => return Ok(Some((item, found))),
                Shape::Pointer(to) => {
                    item = Item {
                        address: self.read_pointer(item.address)?,
                        type_id: to,
                    };
                    if item.address == 0 {
                        return Ok(None);
                    }
                }
                Shape::Array(..) => {
                    return Err("an array has no members: iterate over it with 'for'".into());
                }
                _ => return Err("it is not a struct, so it has no members".into()),
            }
        }
        Err("too many pointers to pointers".into())
    }

    /// Resolves a member of the struct at `outer`.
    pub(super) fn member(&self, outer: Item, name: &str) -> Result<Item, String> {
        let key = (outer.type_id, name.to_owned());
        let known = self.members.borrow().get(&key).cloned();
        let location = match known {
            Some(location) => location,
            None => {
                // A member of a nested struct is found by its name alone, as in makedumpfile.
                let location = find_nested_member(&self.types, outer.type_id, name);
                let location = location.map_err(text)?;
                self.members.borrow_mut().insert(key, location.clone());
                location
            }
        };
        let Some(location) = location else {
            let (_, found) = self.resolve(outer.type_id)?;
            let found = found.name.unwrap_or_default();
            return Err(format!("struct '{found}' has no member '{name}'"));
        };
        if location.bits.is_some() {
            return Err(format!(
                "'{name}' is a bit field, which cannot be erased by itself"
            ));
        }
        Ok(Item {
            address: outer.address.wrapping_add(location.offset),
            type_id: location.type_id,
        })
    }

    pub(super) fn read_pointer(&self, address: u64) -> Result<u64, String> {
        self.read_number(address, 8)
    }

    /// Reads an unsigned number of 1, 2, 4 or 8 bytes.
    pub(super) fn read_number(&self, address: u64, size: u64) -> Result<u64, String> {
        self.step()?;
        let mut bytes = [0; 8];
        let size = size.min(8) as usize;
        let part = &mut bytes[..size];
        self.memory
            .read("a variable", VirtAddr(address), part)
            .map_err(text)?;
        let endian = self.memory.endian();
        Ok(match size {
            1 => u64::from(bytes[0]),
            2 => u64::from(endian.u16(&bytes, 0).unwrap_or(0)),
            4 => u64::from(endian.u32(&bytes, 0).unwrap_or(0)),
            8 => endian.u64(&bytes, 0).unwrap_or(0),
            _ => return Err(format!("unsupported number of {size} bytes")),
        })
    }

    /// Returns the length of a string without its NUL.
    pub(super) fn string_length(&self, address: u64) -> Result<u64, String> {
        self.step()?;
        let mut bytes = [0; MAX_STRING];
        // The string may end just before unmapped memory.
        let first = MAX_STRING.min((4096 - address % 4096) as usize);
        let mut filled = 0;
        for end in [first, MAX_STRING] {
            let at = VirtAddr(address.wrapping_add(filled as u64));
            match self
                .memory
                .read("a string to erase", at, &mut bytes[filled..end])
            {
                Ok(()) => filled = end,
                Err(error) if filled == 0 => return Err(text(error)),
                Err(_) => break,
            }
            if bytes[..filled].contains(&0) {
                break;
            }
        }
        let end = bytes[..filled].iter().position(|byte| *byte == 0);
        Ok(end.unwrap_or(filled) as u64)
    }
}

pub(super) fn text(error: KernelError) -> String {
    error.to_string()
}
