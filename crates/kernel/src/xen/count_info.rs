//! The states of a page frame: the flags in count_info of struct page_info
//! (xen/arch/x86/include/asm/mm.h).
//!
//! | flag | layout of 4.0 to 4.16 | later layout |
//! |---|---|---|
//! | PGC_allocated | 63 | 63 |
//! | PGC_xen_heap | 62 | 62 |
//! | PGC_broken | 57 | 60 |
//! | PGC_state | 56:55 | 59:58 |
//!
//! The later layout came with commit ae09597da3 in 4.17, and with the stable updates of 4.13 to
//! 4.16, so the version does not tell which one a hypervisor has; its free pages do. From 4.18 on
//! bit 57 marks a shadowed page table, later a free page that is not scrubbed.

/// PGC_allocated; of a free page, PGC_need_scrub.
const ALLOCATED: u64 = 1 << 63;
/// PGC_need_scrub in the newest versions.
const NEED_SCRUB: u64 = 1 << 57;
/// PGC_xen_heap.
const XEN_HEAP: u64 = 1 << 62;
/// Values of PGC_state.
const OFFLINED: u64 = 2;
const FREE: u64 = 3;

/// Bits below are a count of references.
const FLAGS: u32 = 55;

/// Returns the flags in `count_info`, which alone tell the state.
pub(super) fn flags(count_info: u64) -> u64 {
    count_info >> FLAGS << FLAGS
}

/// The position of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    broken: u32,
    state: u32,
}

/// The layout of 4.0 to 4.16.
pub(super) const OLD: Layout = Layout {
    broken: 57,
    state: 55,
};
/// The later layout.
pub(super) const NEW: Layout = Layout {
    broken: 60,
    state: 58,
};

/// What count_info says about a page frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its memory is broken.
    Broken,
    /// In the hypervisor's free memory.
    Free,
    /// Taken out of use.
    Offlined,
    /// In the hypervisor's heap, or used by it without being allocated.
    Hypervisor,
    /// Allocated: it has an owner, or the hypervisor uses it anonymously.
    Allocated,
}

impl Layout {
    /// The layout that most builds of a version have.
    pub(super) fn usual(major: u64, minor: u64) -> Self {
        if (major, minor) < (4, 17) { OLD } else { NEW }
    }

    /// Returns the layout in which `count_info` is that of a free page: nothing but the state and
    /// the mark of a page to scrub.
    pub(super) fn of_free(count_info: u64) -> Option<Self> {
        // In the old layout bit 57 is PGC_broken.
        if count_info & !ALLOCATED == FREE << OLD.state {
            return Some(OLD);
        }
        (count_info & !(ALLOCATED | NEED_SCRUB) == FREE << NEW.state).then_some(NEW)
    }

    /// Decodes `count_info`, in the order in which the flags count: makedumpfile has the same
    /// (`exclude_xen4_user_domain`).
    pub(super) fn state(self, count_info: u64) -> State {
        if count_info >> self.broken & 1 == 1 {
            return State::Broken;
        }
        if count_info & XEN_HEAP != 0 {
            return State::Hypervisor;
        }
        match count_info >> self.state & 3 {
            FREE => State::Free,
            OFFLINED => State::Offlined,
            _ if count_info & ALLOCATED == 0 => State::Hypervisor,
            _ => State::Allocated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_recognised_by_free_pages() {
        for scrub in [0, ALLOCATED] {
            assert_eq!(Layout::of_free(scrub | 3 << 55), Some(OLD));
            assert_eq!(Layout::of_free(scrub | 3 << 58), Some(NEW));
        }
        assert_eq!(Layout::of_free(NEED_SCRUB | 3 << 58), Some(NEW));
        // A reference, an offlined page, a page of the hypervisor.
        for other in [ALLOCATED | 3 << 58 | 1, 2 << 58, 2 << 55, 0, XEN_HEAP] {
            assert_eq!(Layout::of_free(other), None);
        }
        assert_eq!(Layout::usual(4, 16), OLD);
        assert_eq!(Layout::usual(4, 17), NEW);
        assert_eq!(Layout::usual(5, 0), NEW);
    }

    #[test]
    fn each_state_is_decoded_in_both_layouts() {
        for layout in [OLD, NEW] {
            let state = |count_info| layout.state(count_info);
            assert_eq!(state(3 << layout.state), State::Free);
            assert_eq!(state(2 << layout.state), State::Offlined);
            assert_eq!(state(ALLOCATED | 1 << layout.state | 1), State::Allocated);
            assert_eq!(state(1 << layout.broken | ALLOCATED), State::Broken);
            assert_eq!(state(ALLOCATED | 2), State::Allocated);
            assert_eq!(state(XEN_HEAP | ALLOCATED | 1), State::Hypervisor);
            assert_eq!(state(0), State::Hypervisor);
            for (bit, references) in (55..64).zip(1..) {
                let count_info = 1 << bit | references;
                assert_eq!(state(flags(count_info)), state(count_info));
            }
        }
        // The cache attribute of the old layout, and a shadowed page table of 4.18.
        assert_eq!(OLD.state(ALLOCATED | 3 << 58 | 1), State::Allocated);
        assert_eq!(NEW.state(ALLOCATED | NEED_SCRUB | 1), State::Allocated);
    }
}
