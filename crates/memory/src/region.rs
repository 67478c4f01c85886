//! Pieces of this process's address space.

use std::ffi::c_void;
use std::ptr;

/// Addresses of this process from `start` up to, and without, `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    start: usize,
    end: usize,
}

impl Region {
    /// `length` bytes from `address`; `None` where that passes the end of all addresses.
    pub fn new(address: usize, length: usize) -> Option<Self> {
        let end = address.checked_add(length)?;
        Some(Self {
            start: address,
            end,
        })
    }

    /// From `start` up to `end`; empty if that is not above.
    pub fn between(start: usize, end: usize) -> Self {
        Self {
            start,
            end: end.max(start),
        }
    }

    /// The first address.
    pub fn start(self) -> usize {
        self.start
    }

    /// The address after the last.
    pub fn end(self) -> usize {
        self.end
    }

    /// Bytes.
    pub fn length(self) -> usize {
        self.end - self.start
    }

    /// Whether there is nothing in it.
    pub fn is_empty(self) -> bool {
        self.end == self.start
    }

    /// What is in both.
    pub fn intersection(self, other: Self) -> Self {
        Self::between(self.start.max(other.start), self.end.min(other.end))
    }

    /// Grown at both ends to whole pages of `page` bytes, a power of two, as the kernel
    /// does with what it is told to lock; `None` where that passes the end of all addresses.
    pub fn to_pages(self, page: usize) -> Option<Self> {
        let end = self.end.checked_next_multiple_of(page)?;
        Some(Self {
            start: self.start & !(page - 1),
            end,
        })
    }

    /// Its first address, for a system call.
    pub fn pointer(self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.start)
    }

    /// How many chunks lie in it. Chunks begin at multiples of `chunk`, whatever
    /// the region's start, so that no huge page is cut by two helpers.
    fn chunks(self, chunk: usize) -> u64 {
        if self.is_empty() {
            return 0;
        }
        ((self.end - 1) / chunk - self.start / chunk + 1) as u64
    }

    fn chunk(self, number: u64, chunk: usize) -> Self {
        let start = (self.start / chunk + number as usize).saturating_mul(chunk);
        self.intersection(Self::between(start, start.saturating_add(chunk)))
    }
}

/// A region as part of one job over several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Piece {
    region: Region,
    first_chunk: u64,
}

impl From<Region> for Piece {
    fn from(region: Region) -> Self {
        Self {
            region,
            first_chunk: 0,
        }
    }
}

impl Piece {
    /// The region.
    pub fn region(&self) -> Region {
        self.region
    }
}

/// The regions of one job, cut into chunks.
#[derive(Clone, Copy, Debug)]
pub struct Chunks<'a> {
    pieces: &'a [Piece],
    chunk: usize,
    count: u64,
    bytes: usize,
}

impl<'a> Chunks<'a> {
    /// Cuts `pieces` at multiples of `chunk` bytes.
    pub fn of(pieces: &'a mut [Piece], chunk: usize) -> Self {
        let (mut count, mut bytes) = (0, 0_usize);
        for piece in pieces.iter_mut() {
            piece.first_chunk = count;
            count += piece.region.chunks(chunk);
            bytes = bytes.saturating_add(piece.region.length());
        }
        Self {
            pieces,
            chunk,
            count,
            bytes,
        }
    }

    /// How many chunks there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes in all of them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The chunk of a number below [`Chunks::count`]; empty for others.
    pub fn get(&self, number: u64) -> Region {
        let after = self
            .pieces
            .partition_point(|piece| piece.first_chunk <= number);
        let piece = after.checked_sub(1).and_then(|at| self.pieces.get(at));
        piece.map_or(Region::default(), |piece| {
            piece.region.chunk(number - piece.first_chunk, self.chunk)
        })
    }

    /// The regions.
    pub fn regions(&self) -> impl Iterator<Item = Region> + 'a {
        self.pieces.iter().map(|piece| piece.region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chunks_begin_at_multiples_of_their_size() {
        let mut pieces = [Region::between(0x3000, 0x9000).into()];
        let chunks = Chunks::of(&mut pieces, 0x4000);
        let all: Vec<_> = (0..chunks.count()).map(|n| chunks.get(n)).collect();
        let expected = [(0x3000, 0x4000), (0x4000, 0x8000), (0x8000, 0x9000)];
        assert_eq!(all, expected.map(|(a, b)| Region::between(a, b)));
        assert!(chunks.get(3).is_empty());
    }

    #[test]
    fn pages_are_whole_ones_and_do_not_pass_the_end() {
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
            let mut pieces: Vec<Piece> = regions.iter().copied().map(Piece::from).collect();
            let chunks = Chunks::of(&mut pieces, 1 << shift);
            let mut covered: Vec<Region> = Vec::new();
            for number in 0..chunks.count() {
                let chunk = chunks.get(number);
                prop_assert!(!chunk.is_empty() && chunk.length() <= 1 << shift);
                match covered.last_mut() {
                    Some(last) if last.end() == chunk.start() => *last = Region::between(last.start(), chunk.end()),
                    _ => covered.push(chunk),
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
