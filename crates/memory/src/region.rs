//! Ranges of this process's address space.

use std::ffi::c_void;
use std::ptr;

/// Addresses of this process from `start` up to, but excluding, `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    start: usize,
    end: usize,
}

impl Region {
    /// Returns the `length` bytes from `address` on; `None` if they pass the end of the address
    /// space.
    pub fn new(address: usize, length: usize) -> Option<Self> {
        let end = address.checked_add(length)?;
        Some(Self {
            start: address,
            end,
        })
    }

    /// Returns the addresses from `start` up to `end`; empty if `end` is not above `start`.
    pub fn between(start: usize, end: usize) -> Self {
        Self {
            start,
            end: end.max(start),
        }
    }

    /// Returns the first address.
    pub fn start(self) -> usize {
        self.start
    }

    /// Returns the address after the last.
    pub fn end(self) -> usize {
        self.end
    }

    /// Returns the length in bytes.
    pub fn length(self) -> usize {
        self.end - self.start
    }

    /// True if the region is empty.
    pub fn is_empty(self) -> bool {
        self.end == self.start
    }

    /// Returns the addresses that are in both regions.
    pub fn intersection(self, other: Self) -> Self {
        Self::between(self.start.max(other.start), self.end.min(other.end))
    }

    /// Extends the region at both ends to whole pages of `page` bytes, a power of two, as the
    /// kernel does with a range to lock; `None` if the result passes the end of the address
    /// space.
    pub fn to_pages(self, page: usize) -> Option<Self> {
        let end = self.end.checked_next_multiple_of(page)?;
        Some(Self {
            start: self.start & !(page - 1),
            end,
        })
    }

    /// Returns the first address as a pointer, for a system call.
    pub fn pointer(self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.start)
    }

    /// Returns the number of slices. Slices begin at multiples of `slice_size`, whatever the
    /// region's start, so that no huge page is split between two helpers.
    fn slice_count(self, slice_size: usize) -> u64 {
        if self.is_empty() {
            return 0;
        }
        ((self.end - 1) / slice_size - self.start / slice_size + 1) as u64
    }

    fn slice(self, number: u64, slice_size: usize) -> Self {
        let start = (self.start / slice_size + number as usize).saturating_mul(slice_size);
        self.intersection(Self::between(start, start.saturating_add(slice_size)))
    }
}

/// A region as one of the parts of a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobRegion {
    region: Region,
    first_slice: u64,
}

impl From<Region> for JobRegion {
    fn from(region: Region) -> Self {
        Self {
            region,
            first_slice: 0,
        }
    }
}

impl JobRegion {
    /// Returns the region.
    pub fn region(&self) -> Region {
        self.region
    }
}

/// The regions of one job, cut into slices.
#[derive(Clone, Copy, Debug)]
pub struct Slices<'a> {
    parts: &'a [JobRegion],
    slice_size: usize,
    count: u64,
    bytes: usize,
}

impl<'a> Slices<'a> {
    /// Cuts `parts` into slices at multiples of `slice_size` bytes.
    pub fn of(parts: &'a mut [JobRegion], slice_size: usize) -> Self {
        let (mut count, mut bytes) = (0, 0_usize);
        for part in parts.iter_mut() {
            part.first_slice = count;
            count += part.region.slice_count(slice_size);
            bytes = bytes.saturating_add(part.region.length());
        }
        Self {
            parts,
            slice_size,
            count,
            bytes,
        }
    }

    /// Returns the number of slices.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the total size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the slice with this number; an empty region from [`Slices::count`] on.
    pub fn get(&self, number: u64) -> Region {
        let after = self
            .parts
            .partition_point(|part| part.first_slice <= number);
        let part = after.checked_sub(1).and_then(|at| self.parts.get(at));
        part.map_or(Region::default(), |part| {
            part.region
                .slice(number - part.first_slice, self.slice_size)
        })
    }

    /// Returns the regions.
    pub fn regions(&self) -> impl Iterator<Item = Region> + 'a {
        self.parts.iter().map(|part| part.region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slices_begin_at_multiples_of_their_size() {
        let mut parts = [Region::between(0x3000, 0x9000).into()];
        let slices = Slices::of(&mut parts, 0x4000);
        let all: Vec<_> = (0..slices.count()).map(|n| slices.get(n)).collect();
        let expected = [(0x3000, 0x4000), (0x4000, 0x8000), (0x8000, 0x9000)];
        assert_eq!(all, expected.map(|(a, b)| Region::between(a, b)));
        assert!(slices.get(3).is_empty());
    }

    #[test]
    fn whole_pages_do_not_pass_the_end() {
        let region = Region::new(0x1fff, 2).unwrap();
        assert_eq!(
            region.to_pages(0x1000),
            Some(Region::between(0x1000, 0x3000))
        );
        assert_eq!(Region::new(usize::MAX, 2), None);
        assert_eq!(
            Region::between(usize::MAX - 1, usize::MAX).to_pages(0x1000),
            None
        );
    }

    proptest! {
        #[test]
        fn chunks_cover_their_regions_once(
            parts in proptest::collection::vec((0_usize..1 << 20, 0_usize..1 << 20), 0..8),
            shift in 12_u32..18,
        ) {
            let mut at = 0;
            let regions: Vec<_> = parts
                .into_iter()
                .map(|(gap, length)| {
                    let region = Region::new(at + gap, length).unwrap();
                    at = region.end();
                    region
                })
                .collect();
            let mut parts: Vec<JobRegion> = regions.iter().copied().map(JobRegion::from).collect();
            let slices = Slices::of(&mut parts, 1 << shift);
            let mut covered: Vec<Region> = Vec::new();
            for number in 0..slices.count() {
                let slice = slices.get(number);
                prop_assert!(!slice.is_empty() && slice.length() <= 1 << shift);
                match covered.last_mut() {
                    Some(last) if last.end() == slice.start() => *last = Region::between(last.start(), slice.end()),
                    _ => covered.push(slice),
                }
            }
            let mut expected: Vec<Region> = Vec::new();
            for region in regions.into_iter().filter(|region| !region.is_empty()) {
                match expected.last_mut() {
                    Some(last) if last.end() == region.start() => *last = Region::between(last.start(), region.end()),
                    _ => expected.push(region),
                }
            }
            prop_assert_eq!(covered, expected);
        }
    }
}
