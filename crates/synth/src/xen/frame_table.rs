//! The frame table: an entry for each page frame (struct page_info,
//! xen/arch/x86/include/asm/mm.h).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::build::{Builder, GROUP, Numbers, PAGE};
use super::spec::XenOwner;
use crate::error::SynthError;

impl Builder {
    /// Maps the table and fills it.
    pub(super) fn frame_table(&mut self, numbers: &Numbers) -> Result<(), SynthError> {
        let size = self.page_info_size();
        let start = self.frame_table_start();
        // The pages first: they are the hypervisor's, too.
        let mut pages = BTreeMap::new();
        for group in self.groups.clone() {
            for frames in group.step_by(GROUP as usize) {
                let first = start + self.pdx(frames) * size;
                for page in first / PAGE..=(first + GROUP * size - 1) / PAGE {
                    if let Entry::Vacant(vacant) = pages.entry(page) {
                        let at = *vacant.insert(self.allocate()?);
                        self.map(page * PAGE, at * PAGE, PAGE)?;
                    }
                }
            }
        }
        let (count_at, domain_at) = self.fields();
        let spans = self.spec.spans();
        let mut free = 0;
        for frame in self.groups.clone().into_iter().flatten() {
            let owner = spans.owner(frame);
            let (count, domain) = self.page_info(frame, owner, numbers);
            free += u64::from(count & 3 << self.state_shift() == 3 << self.state_shift());
            let kind = match owner {
                Some(XenOwner::Domain(0)) => self.type_info(frame),
                _ => 0,
            };
            let mut entry = vec![0; size as usize];
            let words = [(count_at, count), (count_at + 8, kind), (domain_at, domain)];
            for (offset, word) in words {
                entry[offset as usize..][..8].copy_from_slice(&word.to_le_bytes());
            }
            let at = start + self.pdx(frame) * size;
            // An entry may go on in the next page.
            let here = entry.len().min((PAGE - at % PAGE) as usize);
            for (at, bytes) in [(at, &entry[..here]), (at + here as u64, &entry[here..])] {
                if !bytes.is_empty() {
                    let physical = pages[&(at / PAGE)] * PAGE + at % PAGE;
                    self.memory.put(physical, bytes);
                }
            }
        }
        let avail = free.wrapping_add_signed(self.spec.avail_skew);
        self.memory.put64(self.variable(4), avail);
        Ok(())
    }

    fn state_shift(&self) -> u32 {
        if self.spec.old_count_info { 55 } else { 58 }
    }

    /// count_info and _domain of a page frame (xen/arch/x86/include/asm/mm.h).
    fn page_info(&self, frame: u64, owner: Option<XenOwner>, numbers: &Numbers) -> (u64, u64) {
        const ALLOCATED: u64 = 1 << 63;
        const HEAP: u64 = 1 << 62;
        let state = self.state_shift();
        let broken = if self.spec.old_count_info { 57 } else { 60 };
        let Some(owner) = owner else {
            return (0, 0);
        };
        // Only the first page of a free range has its order, in place of the owner.
        let order = if frame.is_multiple_of(GROUP) { 9 } else { 0 };
        match owner {
            XenOwner::Hypervisor => (0, 0),
            XenOwner::Heap => (ALLOCATED | HEAP | 1, 0),
            XenOwner::Io => (ALLOCATED | 1, numbers.io),
            XenOwner::Stray => (ALLOCATED | 1, numbers.stray),
            XenOwner::Free => (3 << state, order),
            XenOwner::Unscrubbed => (ALLOCATED | 3 << state, order),
            XenOwner::Offlined => (2 << state, 0),
            XenOwner::Broken => (1 << broken | 2 << state, 0),
            XenOwner::Domain(id) => {
                let number = numbers.domains.iter().find(|(other, _)| *other == id);
                let number = number.map_or(0, |(_, number)| *number);
                (ALLOCATED | self.special(frame) | 2, number)
            }
        }
    }

    /// Flags that some pages of domains have besides.
    fn special(&self, frame: u64) -> u64 {
        let is_new = self.spec.version >= (4, 18) && !self.spec.old_count_info;
        match (frame % 64, self.spec.old_count_info) {
            // The cache attribute.
            (1, true) => 3 << 58,
            // A shadowed page table, and a page that is not counted.
            (1, false) if is_new => 1 << 57,
            (2, false) if is_new => 1 << 61,
            _ => 0,
        }
    }
}
