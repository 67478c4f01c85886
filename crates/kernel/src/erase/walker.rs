//! Walks of kernel objects, for rules that name pages.

use bigiron_format::VirtAddr;

use super::command::{Amount, Command, Erase, Loop};
use super::config::Config;
use super::elements;
use super::extent::extent;
use super::item::{EraseMemory, Item, Scope, text};
use super::linked::named;
use super::resolve::{BYTES_PER_ELEMENT, MAX_RANGES};
use crate::symbols::Symbols;
use crate::types::{Shape, TypeTable, find_member};

/// The objects that a command names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    /// Their virtual addresses and their sizes.
    pub(crate) extents: Vec<(u64, u64)>,
    /// Why some or all are not found.
    pub(crate) problem: Option<String>,
}

/// Follows variables, lists and members.
pub(crate) struct Walker<'a> {
    scope: Scope<'a>,
}

impl<'a> Walker<'a> {
    /// Creates a walker; the arguments are those of [`resolve`](super::resolve()).
    pub(crate) fn new(
        memory: &'a dyn EraseMemory,
        symbols: &'a Symbols,
        types: &'a dyn TypeTable,
        moved: u64,
    ) -> Self {
        let scope = Scope::new(memory, symbols, types, moved);
        scope.add_steps(BYTES_PER_ELEMENT);
        Self { scope }
    }

    /// Calls `visit` with every element of a list, in the words between `for` and the commands of
    /// makedumpfile.conf(5).
    pub(crate) fn each(&self, list: &str, visit: &mut dyn FnMut(Item)) -> Result<(), String> {
        let config = Config::parse(format!("for {list} endfor").as_bytes());
        match config.commands.first() {
            Some((_, Command::Loop(command))) => {
                let mut items = Vec::new();
                let ended = self.elements(command, &mut items);
                items.into_iter().for_each(visit);
                ended
            }
            _ => Err(format!("{list} is no list")),
        }
    }

    /// Finds the objects of a command.
    pub(crate) fn objects(&self, command: &Command) -> Objects {
        self.collect(command, false)
    }

    /// As [`Self::objects`]; of an array of pointers, those that they point to, where the amount is
    /// the number of pointers.
    pub(crate) fn pointed(&self, command: &Command) -> Objects {
        self.collect(command, true)
    }

    fn collect(&self, command: &Command, pointed: bool) -> Objects {
        let mut found = Objects::default();
        let (erases, items) = match command {
            Command::Erase(erase) => (std::slice::from_ref(erase), vec![None]),
            Command::Loop(command) => {
                let mut items = Vec::new();
                found.problem = self.elements(command, &mut items).err();
                (command.erases(), items.into_iter().map(Some).collect())
            }
        };
        self.scope.add_steps(BYTES_PER_ELEMENT);
        for item in items {
            for erase in erases {
                match extent(&self.scope, erase, item) {
                    Ok(Some(_)) if found.extents.len() == MAX_RANGES => {
                        let reason = || format!("more than {MAX_RANGES} objects");
                        found.problem.get_or_insert_with(reason);
                        return found;
                    }
                    Ok(Some(array)) if pointed && self.is_array(erase, item) => {
                        if let Err(error) = self.pointers(erase, array, &mut found.extents) {
                            found.problem.get_or_insert(error);
                        }
                    }
                    Ok(extent) => found.extents.extend(extent),
                    Err(error) => {
                        found.problem.get_or_insert(error);
                    }
                }
            }
        }
        found
    }

    /// The struct or union `name` at an address.
    pub(crate) fn item(&self, name: &str, address: u64) -> Result<Item, String> {
        let found = named(&self.scope, name)?;
        Ok(Item { address, ..found })
    }

    /// Returns the offset of a member in a struct, in bytes.
    pub(crate) fn offset(&self, name: &str, member: &str) -> Result<u64, String> {
        let item = self.item(name, 0)?;
        let found = find_member(&self.scope.types, item.type_id, member).map_err(text)?;
        let found = found.ok_or_else(|| format!("struct '{name}' has no member '{member}'"))?;
        Ok(found.offset)
    }

    /// Reads the pointer at the end of the members `path`; `None` if it or one on the way is NULL.
    pub(crate) fn pointer(&self, item: Item, path: &str) -> Result<Option<u64>, String> {
        match self.follow(item, path)? {
            Some(found) => {
                let pointer = self.scope.read_pointer(found.address)?;
                Ok((pointer != 0).then_some(pointer))
            }
            None => Ok(None),
        }
    }

    /// Reads the text at the end of the members `path`, an array of characters or a pointer to
    /// them, of up to `most` bytes; empty if a pointer is NULL.
    pub(crate) fn text(&self, item: Item, path: &str, most: usize) -> Result<String, String> {
        let Some(found) = self.follow(item, path)? else {
            return Ok(String::new());
        };
        let (_, shape) = self.scope.resolve(found.type_id)?;
        let address = match shape.shape {
            Shape::Pointer(_) => self.scope.read_pointer(found.address)?,
            _ => found.address,
        };
        if address == 0 {
            return Ok(String::new());
        }
        let len = self.scope.string_length(address)?.min(most as u64);
        let mut bytes = vec![0; len as usize];
        let memory = self.scope.memory;
        memory
            .read("a name", VirtAddr(address), &mut bytes)
            .map_err(text)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns true if a command names a pointer to pointers.
    fn is_array(&self, erase: &Erase, element: Option<Item>) -> bool {
        let shape = || -> Result<_, String> {
            let start = element.map_or_else(|| self.scope.symbol(&erase.target), Ok)?;
            let found = self.scope.follow(start, &erase.target.members)?;
            let found = found.ok_or("there is none")?;
            let (_, found) = self.scope.resolve(found.type_id)?;
            let Shape::Pointer(to) = found.shape else {
                return Ok(found.shape);
            };
            Ok(self.scope.resolve(to)?.1.shape)
        };
        matches!(shape(), Ok(Shape::Pointer(_)))
    }

    /// Reads an array of pointers.
    fn pointers(
        &self,
        erase: &Erase,
        (address, len): (u64, u64),
        extents: &mut Vec<(u64, u64)>,
    ) -> Result<(), String> {
        let count = match erase.amount {
            Amount::ByType => 1,
            _ => len,
        };
        for index in 0..count {
            if extents.len() >= MAX_RANGES {
                return Err(format!("more than {MAX_RANGES} objects"));
            }
            let at = address.wrapping_add(index.wrapping_mul(8));
            let pointer = self.scope.read_pointer(at)?;
            if pointer != 0 {
                extents.push((pointer, 0));
            }
        }
        Ok(())
    }

    fn follow(&self, item: Item, path: &str) -> Result<Option<Item>, String> {
        let names: Vec<String> = path.split('.').map(str::to_owned).collect();
        self.scope.follow(item, &names)
    }

    fn elements(&self, command: &Loop, items: &mut Vec<Item>) -> Result<(), String> {
        self.scope.add_steps(BYTES_PER_ELEMENT);
        elements::for_each(&self.scope, command, &mut |item| items.push(item))
    }
}
