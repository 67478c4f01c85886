//! Structures that only a module defines, by the module's own types.

use bigiron_format::VirtAddr;
use bigiron_kernel::types::{TypeId, TypeTable, find_member, resolve, size_of, structure};

use crate::error::InspectError;
use crate::program::Program;

/// Maximum length of a text.
const MAX_TEXT: usize = 256;

/// A structure of a module, or of the kernel if the module is built in.
pub(crate) struct Structure<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    types: &'p dyn TypeTable,
    id: TypeId,
    name: &'static str,
}

impl<'p, 'k, 's> Structure<'p, 'k, 's> {
    /// Finds a structure; `None` if the module is not loaded.
    ///
    /// # Errors
    ///
    /// The module has no types, or not this one.
    pub fn of(
        program: &'p Program<'k, 's>,
        module: &str,
        name: &'static str,
    ) -> Result<Option<Self>, InspectError> {
        let found = |types: &'p dyn TypeTable, id| {
            Some(Self {
                program,
                types,
                id,
                name,
            })
        };
        if let Some(id) = structure(program.types(), name)? {
            return Ok(found(program.types(), id));
        }
        let modules = program.modules();
        let mut named = modules.list.iter().filter(|known| known.name == module);
        let Some(module) = named.next() else {
            return Ok(None);
        };
        let types = modules
            .types(program, module)
            .map_err(|reason| InspectError::Types {
                name: name.to_owned(),
                reason: reason.to_owned(),
            })?;
        match structure(types, name)? {
            Some(id) => Ok(found(types, id)),
            None => Err(InspectError::NoMember {
                name: format!("struct {name}"),
                option: None,
            }),
        }
    }

    /// Size of the structure, in bytes.
    pub fn size(&self) -> Result<u64, InspectError> {
        Ok(size_of(self.types, self.id)?.unwrap_or(0))
    }

    /// Offset and size of a member; `path` may go through nested structures.
    fn locate(&self, path: &str) -> Result<(u64, u64), InspectError> {
        let (mut offset, mut id) = (0_u64, self.id);
        for step in path.split('.') {
            let (inner, _) = resolve(self.types, id)?;
            let found = find_member(self.types, inner, step)?.filter(|found| found.bits.is_none());
            let Some(found) = found else {
                return Err(InspectError::NoMember {
                    name: format!("{}.{path}", self.name),
                    option: None,
                });
            };
            offset = offset.saturating_add(found.offset);
            id = found.type_id;
        }
        Ok((offset, size_of(self.types, id)?.unwrap_or(0)))
    }

    /// Offset of a member, in bytes.
    pub fn offset(&self, path: &str) -> Result<u64, InspectError> {
        Ok(self.locate(path)?.0)
    }

    /// Address of a member of the structure at `at`.
    pub fn member(&self, at: VirtAddr, path: &str) -> Result<VirtAddr, InspectError> {
        self.program.plus(at, self.offset(path)?)
    }

    /// Reads a number, without its sign.
    pub fn value(&self, at: VirtAddr, path: &str) -> Result<u64, InspectError> {
        let (offset, size) = self.locate(path)?;
        self.program.number(self.program.plus(at, offset)?, size)
    }

    /// Reads a pointer.
    pub fn pointer(&self, at: VirtAddr, path: &str) -> Result<VirtAddr, InspectError> {
        self.value(at, path).map(VirtAddr)
    }

    /// Returns the elements of a list (struct list_head), which are linked by their member `path`.
    ///
    /// # Errors
    ///
    /// The list does not lead back to its head within `most` elements.
    pub fn list(
        &self,
        head: VirtAddr,
        path: &str,
        most: usize,
    ) -> Result<Vec<VirtAddr>, InspectError> {
        let walk = self.program.list_at(head, self.offset(path)?, most);
        match walk.cut {
            None => Ok(walk.items),
            Some(reason) => Err(InspectError::Damaged {
                what: format!("a list of {}", self.name),
                address: head,
                reason,
            }),
        }
    }

    /// Reads the text that a pointer points to.
    pub fn text(&self, at: VirtAddr, path: &str) -> Result<String, InspectError> {
        self.program.string(self.pointer(at, path)?, MAX_TEXT)
    }
}
