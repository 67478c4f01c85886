//! What the hypervisor knows a paravirtual domain's page for: type_info of struct page_info
//! (xen/arch/x86/include/asm/mm.h).
//!
//! | flag | bits | |
//! |---|---|---|
//! | the type, old layout | 63:60 | 1 to 4: a page table of this level; 7: mapped writable |
//! | the type, later layout | 63:61 | the same numbers |
//! | PGT_pinned | 59 | the domain keeps the type |
//! | PGT_validated | 58 | the page has been checked for its type |
//!
//! Nothing says which layout a hypervisor has; its writable pages do, of which there are most.

const PINNED: u64 = 1 << 59;
const VALIDATED: u64 = 1 << 58;
/// PGT_writable_page, as the highest four bits in either layout.
const WRITABLE_OLD: u64 = 0x7;
const WRITABLE_NEW: u64 = 0xe;

/// The position of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeLayout {
    shift: u32,
}

/// The layout with four bits.
const OLD: TypeLayout = TypeLayout { shift: 60 };
/// The layout with three.
const NEW: TypeLayout = TypeLayout { shift: 61 };

impl TypeLayout {
    /// Returns the layout in which most of the pages are writable.
    pub(super) fn of(types: impl Iterator<Item = u64>) -> Self {
        let (mut old, mut new) = (0_u64, 0_u64);
        for word in types {
            old += u64::from(word >> 60 == WRITABLE_OLD);
            new += u64::from(word >> 60 == WRITABLE_NEW);
        }
        if old > new { OLD } else { NEW }
    }

    /// Returns the level of page tables of a page, 0 if it is none.
    pub(super) fn table_level(self, type_info: u64) -> u8 {
        match type_info >> self.shift {
            level @ 1..=4 if type_info & (PINNED | VALIDATED) != 0 => level as u8,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_recognised_by_writable_pages() {
        let of = |words: &[u64]| TypeLayout::of(words.iter().copied());
        assert_eq!(of(&[7 << 60 | 1, 7 << 60 | 2, 3 << 61 | 1 << 60]), OLD);
        assert_eq!(of(&[7 << 61 | 1, 7 << 61 | 3, 3 << 61 | 1 << 60]), NEW);
        assert_eq!(of(&[]), NEW);
    }

    #[test]
    fn page_tables_are_those_that_are_checked_or_pinned() {
        for layout in [OLD, NEW] {
            for level in 1..=4 {
                let word = level << layout.shift;
                assert_eq!(u64::from(layout.table_level(word | VALIDATED | 1)), level);
                assert_eq!(u64::from(layout.table_level(word | PINNED)), level);
                assert_eq!(layout.table_level(word | 1), 0);
            }
            assert_eq!(layout.table_level(VALIDATED | 1), 0);
            assert_eq!(layout.table_level(7 << layout.shift | VALIDATED | 1), 0);
        }
    }
}
