//! A part of the kept pages, which stands for all of them in an estimate.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, PageFrameRange};
use bigiron_kernel::SECTION_FRAMES;

/// Page frames that are taken together: as many as a vmdump's chunk has, so that compression finds
/// the neighbours that it finds in a whole dump.
const BLOCK_FRAMES: u64 = 64;
/// Spreads block numbers (the golden ratio in 64 bits), so that no pattern of the memory meets one
/// of the sample.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// One block in so many is none.
const NO_BLOCK: u64 = u64::MAX;

/// The part of the kept pages that a dump copies. It is the same in each dump of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    sections: u64,
    blocks: u64,
    without: [Option<PageFrameRange>; 2],
}

impl Sample {
    /// No page: the dump only counts.
    pub const NONE: Self = Self {
        sections: 1,
        blocks: NO_BLOCK,
        without: [None; 2],
    };

    /// One section in `sections`, and of each one block of page frames in `blocks`, on average.
    pub fn one_in(sections: u64, blocks: u64) -> Self {
        Self {
            sections: sections.max(1),
            blocks: blocks.max(1),
            without: [None; 2],
        }
    }

    /// Leaves out page frames that the dump will not have: the memory of the capture kernel, of
    /// which there are two ranges at most.
    pub fn without(self, ranges: [Option<PageFrameRange>; 2]) -> Self {
        Self {
            without: ranges,
            ..self
        }
    }

    /// Returns true if pages of the section with this number are taken.
    pub(crate) fn has_section(self, index: u64) -> bool {
        index % self.sections == self.sections / 2
    }

    /// Clears the bits of the page frames that are not taken, in the section at `first`.
    pub(crate) fn select(self, first: PageFrame, kept: &mut Bitmap) {
        for range in self.without.iter().flatten() {
            let bit = |frame: PageFrame| frame.0.saturating_sub(first.0).min(SECTION_FRAMES);
            kept.clear_range(bit(range.start) as usize, bit(range.end) as usize);
        }
        if self.blocks == 1 {
            return;
        }
        for block in 0..SECTION_FRAMES / BLOCK_FRAMES {
            let number = first.0 / BLOCK_FRAMES + block;
            // The upper half of the product depends on all bits of the number.
            let random = number.wrapping_mul(SPREAD) >> 32;
            if self.blocks == NO_BLOCK || !random.is_multiple_of(self.blocks) {
                let start = (block * BLOCK_FRAMES) as usize;
                kept.clear_range(start, start + BLOCK_FRAMES as usize);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(sample: Sample, sections: u64) -> u64 {
        let numbers = (0..sections).filter(|index| sample.has_section(*index));
        let counts = numbers.map(|index| {
            let mut kept = Bitmap::new(SECTION_FRAMES as usize);
            kept.set_range(0, SECTION_FRAMES as usize);
            sample.select(PageFrame(index * SECTION_FRAMES), &mut kept);
            kept.count()
        });
        counts.sum()
    }

    #[test]
    fn sample_has_about_the_share_that_was_asked_for() {
        let all = 64 * SECTION_FRAMES;
        assert_eq!(taken(Sample::one_in(1, 1), 64), all);
        assert_eq!(taken(Sample::one_in(0, 0), 64), all);
        assert_eq!(taken(Sample::NONE, 64), 0);
        for (sections, blocks) in [(1, 3), (1, 64), (4, 16), (8, 1)] {
            let part = all / sections / blocks;
            let found = taken(Sample::one_in(sections, blocks), 64);
            assert!(found.abs_diff(part) <= part / 8, "{found}, not {part}");
        }
    }
    #[test]
    fn memory_of_the_capture_kernel_is_left_out() {
        let part = PageFrameRange::new(SECTION_FRAMES - 100, SECTION_FRAMES + 50);
        let rest = PageFrameRange::new(3 * SECTION_FRAMES, 3 * SECTION_FRAMES + 7);
        let sample = Sample::one_in(1, 1).without([Some(part), Some(rest)]);
        assert_eq!(taken(sample, 4), 4 * SECTION_FRAMES - 157);
    }
}
