//! Elements that a link in them connects.

use super::command::{Link, Loop};
use super::item::{Item, Scope, text};
use crate::types::structure;

/// Maximum number of elements, above the number of tasks of any kernel (PID_MAX_LIMIT); a damaged
/// list may be endless.
pub(super) const MAX_ELEMENTS: u64 = 4 << 20;

/// The elements of a list or tree, and where their link is.
pub(super) struct Linked {
    /// The elements' type, at the address 0.
    element: Item,
    /// The link, at its offset.
    link: Item,
}

impl Linked {
    /// Finds the struct and the member behind `within`; the member must be a `link`.
    pub(super) fn find(scope: &Scope, command: &Loop, link: &str) -> Result<Self, String> {
        let Link::Within(name, member) = &command.link else {
            return Err(format!(
                "a list of this type requires 'within STRUCT:MEMBER', where MEMBER is its {link}"
            ));
        };
        let member = member.as_deref().unwrap_or("list");
        let element = named(scope, name)?;
        let found = scope.member(element, member)?;
        if scope.resolve(found.type_id)?.1.name.as_deref() != Some(link) {
            return Err(format!("member '{member}' is not a {link}"));
        }
        let link = found;
        Ok(Self { element, link })
    }

    /// The link at an address.
    pub(super) fn link(&self, address: u64) -> Item {
        Item {
            address,
            ..self.link
        }
    }

    /// The element whose link is at an address.
    pub(super) fn element(&self, link: u64) -> Item {
        Item {
            address: link.wrapping_sub(self.link.address),
            ..self.element
        }
    }
}

/// Returns the struct of a name, at the address 0.
pub(super) fn named(scope: &Scope, name: &str) -> Result<Item, String> {
    let found = structure(&scope.types, name).map_err(text)?;
    let type_id = found.ok_or_else(|| format!("struct '{name}' not found"))?;
    Ok(Item {
        address: 0,
        type_id,
    })
}
