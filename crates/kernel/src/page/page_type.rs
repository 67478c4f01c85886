//! Page types, which the kernel stores in place of a mapcount.

/// A page type in `_mapcount` (`page_type`).
#[derive(Clone, Copy, Debug)]
pub(super) enum PageType {
    /// Through 6.11: one cleared bit under a base pattern.
    ClearedBit { mask: u32, base: u32 },
    /// Since 6.12: the top byte (commit 4ffca5a96678).
    TopByte(u32),
}

impl PageType {
    pub(super) fn new(value: i64) -> Self {
        let value = value as u32;
        if value & 0x00ff_ffff == 0 {
            return Self::TopByte(value >> 24);
        }
        let bit = !value;
        // PAGE_TYPE_BASE changed from 0xf0000000 to 0x80000000 when the types moved to the top
        // bits in 6.11 (commit 8db00ad56461).
        let base = if bit >= 1 << 24 {
            0x8000_0000
        } else {
            0xf000_0000
        };
        Self::ClearedBit {
            mask: base | bit,
            base,
        }
    }

    #[inline]
    pub(super) fn matches(self, mapcount: u32) -> bool {
        match self {
            Self::ClearedBit { mask, base } => mapcount & mask == base,
            Self::TopByte(top) => mapcount >> 24 == top,
        }
    }

    /// The mask of `_mapcount` that holds the type, and its value.
    pub(super) fn mask_and_value(self) -> (u32, u32) {
        match self {
            Self::ClearedBit { mask, base } => (mask, base),
            Self::TopByte(top) => (0xff00_0000, top << 24),
        }
    }
}

#[inline]
pub(super) fn is(page_type: Option<PageType>, mapcount: u32) -> bool {
    page_type.is_some_and(|page_type| page_type.matches(mapcount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_types_are_distinct_in_every_encoding() {
        // 6.10: PG_buddy 0x80, PG_offline 0x100, PG_slab 0x1000, as cleared bits.
        let buddy = PageType::new(-129);
        assert!(buddy.matches(0xffff_ff7f) && !buddy.matches(0xffff_feff));
        assert!(!buddy.matches(0) && !buddy.matches(0xffff_ffff));
        // 6.11: PG_buddy 0x40000000, PG_slab 0x02000000.
        let buddy = PageType::new(i64::from(!0x4000_0000_u32 as i32));
        let slab = PageType::new(i64::from(!0x0200_0000_u32 as i32));
        assert!(buddy.matches(0xbfff_ffff) && !slab.matches(0xbfff_ffff));
        assert!(slab.matches(0xfdff_ffff) && !buddy.matches(0xfdff_ffff));
        assert!(!slab.matches(0xffff_ffff));
        // 6.12: PGTY_buddy 0xf0, PGTY_slab 0xf5.
        let buddy = PageType::new(-268_435_456);
        let slab = PageType::new(-184_549_376);
        assert!(buddy.matches(0xf000_0000) && !slab.matches(0xf000_0000));
        assert!(slab.matches(0xf500_0012) && !buddy.matches(0xf500_0012));
    }
}
