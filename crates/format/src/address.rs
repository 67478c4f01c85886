//! Address types: each kind of address is a distinct type.

use std::fmt;
use std::ops::Range;

/// A page frame number: a physical address divided by the page size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageFrame(pub u64);

/// A physical address of the dumped machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysAddr(pub u64);

/// A virtual address of the dumped kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtAddr(pub u64);

/// Page frames from `start` up to, but not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageFrameRange {
    /// The first page frame.
    pub start: PageFrame,
    /// The page frame after the last.
    pub end: PageFrame,
}

impl PageFrame {
    /// Address of the frame's first byte; `None` beyond 64 bits.
    pub fn address(self, page_shift: u32) -> Option<PhysAddr> {
        let address = self.0 << page_shift;
        (address >> page_shift == self.0).then_some(PhysAddr(address))
    }
}

impl PhysAddr {
    /// The page frame that contains this address.
    pub fn page_frame(self, page_shift: u32) -> PageFrame {
        PageFrame(self.0 >> page_shift)
    }
}

impl VirtAddr {
    /// The address `offset` bytes higher; `None` on overflow.
    pub fn checked_add(self, offset: u64) -> Option<VirtAddr> {
        self.0.checked_add(offset).map(VirtAddr)
    }
}

impl PageFrameRange {
    /// Frames `start..end`; empty if `end` is not above `start`.
    pub fn new(start: u64, end: u64) -> Self {
        Self {
            start: PageFrame(start),
            end: PageFrame(end.max(start)),
        }
    }

    /// Number of frames.
    pub fn len(&self) -> u64 {
        self.end.0 - self.start.0
    }

    /// Returns true if the range is empty.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// Returns true if `frame` is in the range.
    pub fn contains(&self, frame: PageFrame) -> bool {
        self.start <= frame && frame < self.end
    }

    /// The intersection of two ranges.
    pub fn intersect(&self, other: PageFrameRange) -> PageFrameRange {
        let start = self.start.0.max(other.start.0);
        Self::new(start, self.end.0.min(other.end.0).max(start))
    }

    /// The range as plain numbers, for loops.
    pub fn numbers(&self) -> Range<u64> {
        self.start.0..self.end.0
    }
}

impl fmt::Display for PageFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for VirtAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
