//! Sets of page frames, of which a machine may have any number.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;

/// Page frames of a block, a bit each.
const BLOCK: u64 = 512;
const WORDS: usize = (BLOCK / 64) as usize;
type Bits = [u64; WORDS];

/// Maximum number of runs of whole blocks, 16 bytes each, and of other blocks, 72 bytes each: 6 MiB,
/// for page frames of the memory map of 8 TiB.
const SMALL: usize = 1 << 16;
/// As [`SMALL`], 22 MiB, for any page frames in 512 GiB.
const LARGE: usize = 1 << 18;

/// A set of page frames in bounded memory. What does not fit is not added.
#[derive(Clone, Debug)]
pub struct FrameSet {
    /// Numbers of blocks, the first and the one behind the last: all of their frames.
    runs: Vec<(u64, u64)>,
    /// The other blocks.
    blocks: Vec<(u64, Bits)>,
    /// Page frames that did not fit.
    refused: u64,
    /// Maximum number of runs and of blocks.
    most: usize,
}

impl Default for FrameSet {
    /// An empty set of at most 6 MiB.
    fn default() -> Self {
        Self::of(SMALL)
    }
}

impl FrameSet {
    /// An empty set of at most 22 MiB.
    pub fn large() -> Self {
        Self::of(LARGE)
    }

    fn of(most: usize) -> Self {
        Self {
            runs: Vec::new(),
            blocks: Vec::new(),
            refused: 0,
            most,
        }
    }

    /// Adds page frames from `start` up to `end`.
    pub fn add(&mut self, start: PageFrame, end: PageFrame) {
        let (mut at, end) = (start.0, end.0);
        while at < end {
            let block = at / BLOCK;
            let whole = end / BLOCK;
            if at.is_multiple_of(BLOCK) && whole > block {
                self.add_run(block, whole);
                at = whole * BLOCK;
                continue;
            }
            let stop = end.min((block + 1).saturating_mul(BLOCK));
            let mut bits = [0; WORDS];
            for frame in at..stop {
                let bit = frame % BLOCK;
                bits[(bit / 64) as usize] |= 1 << (bit % 64);
            }
            self.add_block(block, &bits);
            at = stop;
        }
    }

    /// Adds the page frames of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.refused = self.refused.saturating_add(other.refused);
        for (start, end) in &other.runs {
            self.add_run(*start, *end);
        }
        for (block, bits) in &other.blocks {
            self.add_block(*block, bits);
        }
    }

    /// Sorts the set, after which [`Self::mark`] finds what was added.
    pub fn finish(&mut self) {
        self.blocks.sort_unstable_by_key(|(block, _)| *block);
        self.blocks.dedup_by(|(block, bits), (before, all)| {
            let same = block == before;
            if same {
                all.iter_mut()
                    .zip(bits)
                    .for_each(|(all, bits)| *all |= *bits);
            }
            same
        });
        let is_full = |bits: &Bits| bits.iter().all(|word| *word == u64::MAX);
        let full = self.blocks.iter().filter(|(_, bits)| is_full(bits));
        self.runs
            .extend(full.map(|(block, _)| (*block, *block + 1)));
        self.blocks.retain(|(_, bits)| !is_full(bits));
        self.runs.sort_unstable();
        self.runs.dedup_by(|(start, end), (_, reached)| {
            let joins = *start <= *reached;
            if joins {
                *reached = (*end).max(*reached);
            }
            joins
        });
    }

    /// Sets the bits of `bits`, whose first one is page frame `first`, that are in the set. Both
    /// `first` and the number of bits are multiples of 512.
    pub fn mark(&self, first: PageFrame, bits: &mut Bitmap) {
        debug_assert!(first.0.is_multiple_of(BLOCK) && bits.len().is_multiple_of(BLOCK as usize));
        let begin = first.0 / BLOCK;
        let end = begin + bits.len() as u64 / BLOCK;
        let from = self.runs.partition_point(|run| run.1 <= begin);
        for (start, stop) in self.runs.iter().skip(from) {
            if *start >= end {
                break;
            }
            let bit = |block: u64| ((block - begin) * BLOCK) as usize;
            bits.set_range(bit((*start).max(begin)), bit((*stop).min(end)));
        }
        let from = self.blocks.partition_point(|(block, _)| *block < begin);
        for (block, words) in self.blocks.iter().skip(from) {
            if *block >= end {
                break;
            }
            for frame in 0..BLOCK {
                if words[(frame / 64) as usize] & 1 << (frame % 64) != 0 {
                    bits.set(((block - begin) * BLOCK + frame) as usize);
                }
            }
        }
    }

    /// Returns true if there are no page frames.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.blocks.is_empty()
    }

    /// Number of page frames, after [`Self::finish`]; a frame that is in a run and in a block
    /// counts twice.
    pub fn len(&self) -> u64 {
        let runs = self.runs.iter().map(|(start, end)| (end - start) * BLOCK);
        let words = self.blocks.iter().flat_map(|(_, bits)| bits);
        runs.sum::<u64>() + words.map(|word| u64::from(word.count_ones())).sum::<u64>()
    }

    /// Number of page frames that did not fit.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn add_run(&mut self, start: u64, end: u64) {
        if let Some(last) = self.runs.last_mut()
            && (last.0..=last.1).contains(&start)
        {
            last.1 = last.1.max(end);
        } else if self.runs.len() < self.most || self.compact() {
            self.runs.push((start, end));
        } else {
            self.refuse((end - start).saturating_mul(BLOCK));
        }
    }

    fn add_block(&mut self, block: u64, bits: &Bits) {
        if let Some((last, all)) = self.blocks.last_mut()
            && *last == block
        {
            all.iter_mut()
                .zip(bits)
                .for_each(|(all, bits)| *all |= bits);
            if all.iter().all(|word| *word == u64::MAX) {
                self.blocks.pop();
                self.add_run(block, block + 1);
            }
        } else if self.blocks.len() < self.most || self.compact() {
            self.blocks.push((block, *bits));
        } else {
            self.refuse(bits.iter().map(|word| u64::from(word.count_ones())).sum());
        }
    }

    /// Joins what was added in pieces; returns true if that makes room for many more.
    fn compact(&mut self) -> bool {
        if self.refused > 0 {
            return false;
        }
        self.finish();
        self.runs.len().max(self.blocks.len()) < self.most - self.most / 8
    }

    fn refuse(&mut self, frames: u64) {
        self.refused = self.refused.saturating_add(frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(set: &FrameSet, first: u64, count: usize) -> Vec<u64> {
        let mut bits = Bitmap::new(count);
        set.mark(PageFrame(first), &mut bits);
        let set = (0..count).filter(|bit| bits.get(*bit));
        set.map(|bit| first + bit as u64).collect()
    }

    #[test]
    fn frames_are_found_whatever_the_order_in_which_they_are_added() {
        let ranges = [
            (5, 6),
            (600, 1700),
            (1023, 1025),
            (7, 600),
            (6, 7),
            (4096, 4097),
        ];
        let mut expected: Vec<u64> = ranges
            .iter()
            .flat_map(|(start, end)| *start..*end)
            .collect();
        expected.sort_unstable();
        expected.dedup();
        let (mut forwards, mut backwards) = (FrameSet::default(), FrameSet::default());
        for (start, end) in ranges {
            forwards.add(PageFrame(start), PageFrame(end));
        }
        for (start, end) in ranges.into_iter().rev() {
            let mut one = FrameSet::default();
            one.add(PageFrame(start), PageFrame(end));
            backwards.merge(&one);
        }
        for mut set in [forwards, backwards] {
            set.finish();
            assert_eq!(marked(&set, 0, 8192), expected);
            let part: Vec<u64> = (1024..1536).collect();
            assert_eq!(marked(&set, 1024, 512), part);
        }
    }

    #[test]
    fn memory_is_bounded_and_what_does_not_fit_is_counted() {
        let mut set = FrameSet::default();
        for block in 0..SMALL as u64 + 3 {
            let frame = block * BLOCK;
            set.add(PageFrame(frame), PageFrame(frame + 2));
        }
        set.add(PageFrame(0), PageFrame(1 << 40));
        set.finish();
        assert_eq!(set.refused(), 6);
        assert_eq!(marked(&set, 1 << 20, 512).len(), 512);
        assert!(!set.is_empty());
        let mut small = FrameSet::default();
        small.add(PageFrame(1), PageFrame(515));
        small.finish();
        assert_eq!(small.len(), 514);
    }

    #[test]
    fn frames_in_any_order_take_the_memory_of_their_blocks() {
        let mut set = FrameSet::default();
        // Each block is visited again and again.
        for round in 0..BLOCK {
            for block in 0..1024 {
                let frame = block * BLOCK + (round * 7) % BLOCK;
                set.add(PageFrame(frame), PageFrame(frame + 1));
            }
        }
        set.finish();
        assert_eq!((set.refused(), set.len()), (0, 1024 * BLOCK));
        assert_eq!((set.runs.len(), set.blocks.len()), (1, 0));
    }
}
