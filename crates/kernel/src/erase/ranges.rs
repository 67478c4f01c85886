//! The bytes of physical memory that are blanked.

use std::collections::BTreeMap;

/// What erased bytes become, as makedumpfile's do.
pub const ERASED: u8 = b'X';

/// Bytes of physical memory, and what they become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blank {
    /// The first.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// What each becomes.
    pub byte: u8,
}

/// Blanks that do not overlap, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blanks(Vec<Blank>);

impl Blanks {
    /// Of blanks that overlap, the one that begins later counts, as in
    /// makedumpfile.
    pub fn new(mut blanks: Vec<Blank>) -> Self {
        blanks.retain(|blank| blank.start < blank.end);
        blanks.sort_by_key(|blank| blank.start);
        let mut placed: BTreeMap<u64, Blank> = BTreeMap::new();
        for blank in blanks {
            // All that was placed begins no later, but for what is left of one.
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

    /// The blanks.
    pub fn as_slice(&self) -> &[Blank] {
        &self.0
    }

    /// The blanks that have bytes of `start..end`.
    pub fn within(&self, start: u64, end: u64) -> &[Blank] {
        let from = self.0.partition_point(|blank| blank.end <= start);
        let to = self.0.partition_point(|blank| blank.start < end);
        self.0.get(from..to).unwrap_or_default()
    }

    /// Blanks `bytes`, which stand at the physical address `start`.
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
    fn of_overlapping_blanks_the_one_that_begins_later_counts() {
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
