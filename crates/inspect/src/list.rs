//! Walks the kernel's linked lists (struct list_head, include/linux/types.h).

use std::collections::HashSet;

use bigiron_format::VirtAddr;

use crate::error::InspectError;
use crate::program::{Program, Walk};

impl Program<'_, '_> {
    /// Walks a `struct list_head` whose elements are `name`, linked by their member `path`.
    /// Stops at a link that was seen before, and after `most` elements.
    pub fn list(
        &self,
        head: VirtAddr,
        name: &str,
        path: &str,
        most: usize,
    ) -> Result<Walk, InspectError> {
        let offset = self.locate(name, path)?.offset;
        Ok(self.list_at(head, offset, most))
    }

    /// The same for elements whose link is at `offset`.
    pub(crate) fn list_at(&self, head: VirtAddr, offset: u64, most: usize) -> Walk {
        self.follow(head, 0, offset, most)
    }

    /// Walks a list backwards, by its links `prev`.
    pub fn list_back(
        &self,
        head: VirtAddr,
        name: &str,
        path: &str,
        most: usize,
    ) -> Result<Walk, InspectError> {
        let offset = self.locate(name, path)?.offset;
        // `prev` is the second member of list_head.
        Ok(self.follow(head, 8, offset, most))
    }

    /// Follows the pointers at offset `link` of each list_head; elements start `offset` bytes
    /// before theirs.
    fn follow(&self, head: VirtAddr, link: u64, offset: u64, most: usize) -> Walk {
        let mut walk = Walk::default();
        let mut seen = HashSet::from([head]);
        let mut at = head;
        loop {
            at = match self.number(VirtAddr(at.0.wrapping_add(link)), 8) {
                Ok(next) => VirtAddr(next),
                Err(error) => {
                    walk.cut = Some(error.to_string());
                    break;
                }
            };
            if at == head {
                break;
            }
            if !seen.insert(at) {
                walk.cut = Some(format!("the list is cyclic at {at}"));
                break;
            }
            if walk.items.len() == most {
                walk.cut = Some(format!("more than {most} elements"));
                break;
            }
            walk.items.push(VirtAddr(at.0.wrapping_sub(offset)));
        }
        walk
    }
}
