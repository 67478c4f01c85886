//! Ranges of physical memory that are erased.

use std::collections::BTreeMap;

/// The value of erased bytes, as in makedumpfile.
pub const ERASED: u8 = b'X';

/// A range of physical memory and the value its bytes get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blank {
    /// Start of the range.
    pub start: u64,
    /// End of the range, exclusive.
    pub end: u64,
    /// New value of each byte.
    pub byte: u8,
}

/// Non-overlapping ranges, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blanks(Vec<Blank>);

impl Blanks {
    /// Where ranges overlap, the one that starts later wins, as in makedumpfile.
    pub fn new(mut blanks: Vec<Blank>) -> Self {
        blanks.retain(|blank| blank.start < blank.end);
        blanks.sort_by_key(|blank| blank.start);
        let mut placed: BTreeMap<u64, Blank> = BTreeMap::new();
        for blank in blanks {
            // All ranges placed so far start no later, except remainders of split ones.
            while let Some((_, old)) = placed.range(..blank.end).next_back() {
                let old = *old;
                if old.end <= blank.start {
                    break;
                }
                placed.remove(&old.start);
                if old.end > blank.end {
                    let start = blank.end;
                    placed.insert(start, Blank { start, ..old });
                }
                if old.start < blank.start {
                    let end = blank.start;
                    placed.insert(old.start, Blank { end, ..old });
                }
            }
            placed.insert(blank.start, blank);
        }
        Self(placed.into_values().collect())
    }

    /// The ranges.
    pub fn as_slice(&self) -> &[Blank] {
        &self.0
    }

    /// The ranges that overlap `start..end`.
    pub fn within(&self, start: u64, end: u64) -> &[Blank] {
        let from = self.0.partition_point(|blank| blank.end <= start);
        let to = self.0.partition_point(|blank| blank.start < end);
        self.0.get(from..to).unwrap_or_default()
    }

    /// Erases within `bytes`, which lie at the physical address `start`.
    pub fn apply(&self, start: u64, bytes: &mut [u8]) {
        let end = start.saturating_add(bytes.len() as u64);
        for blank in self.within(start, end) {
            let from = blank.start.max(start) - start;
            let to = blank.end.min(end) - start;
            bytes[from as usize..to as usize].fill(blank.byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_start_wins_where_ranges_overlap() {
        let blank = |start, end, byte| Blank { start, end, byte };
        let blanks = Blanks::new(vec![
            blank(2, 4, 0),
            blank(0, 8, b'X'),
            blank(3, 6, b'Y'),
            blank(9, 9, 1),
        ]);
        let mut bytes = *b"..........";
        blanks.apply(0, &mut bytes);
        assert_eq!(&bytes, b"XX\0YYYXX..");
        let mut part = *b"....";
        blanks.apply(5, &mut part);
        assert_eq!(&part, b"YXX.");
        assert!(blanks.within(8, 20).is_empty());
    }
}
