//! Decides which pages are worth a hash: all where equal pages are found, else a sample.
//!
//! A hash costs little beside compression, but a tenth of a copy without. Equal pages lie close
//! together (page cache of the same files, poisoned memory), so that the pages just copied tell
//! what the next ones are like.

/// Of the pages hashed since the last decision, one in so many must be equal to another for the
/// next ones to be hashed all.
const WORTHWHILE: u32 = 256;
/// Otherwise the sample is one page in `1 << SAMPLE_BITS`, chosen by its contents: of pages that
/// are equal, either all are chosen or none.
const SAMPLE_BITS: u32 = 5;
/// The sample has also one page in so many by its position, for long runs of the same contents.
const SAMPLE_STEP: u32 = 32;
/// Words of a page that decide whether its contents are chosen.
const SAMPLED_WORDS: usize = 8;

/// The search for equal pages of one helper.
pub(super) struct EqualSearch {
    /// Hashes every page.
    is_worthwhile: bool,
    /// Pages since the last decision: all, hashed, and found equal to another.
    seen: u32,
    hashed: u32,
    equal: u32,
}

impl EqualSearch {
    pub(super) fn new() -> Self {
        Self {
            is_worthwhile: true,
            seen: 0,
            hashed: 0,
            equal: 0,
        }
    }

    /// Decides about the next pages by those since the last decision.
    pub(super) fn begin(&mut self) {
        if self.hashed > 0 {
            self.is_worthwhile = self.equal * WORTHWHILE >= self.hashed;
        }
        (self.seen, self.hashed, self.equal) = (0, 0, 0);
    }

    /// True if `page` is to be hashed.
    #[inline]
    pub(super) fn takes(&mut self, page: &[u8]) -> bool {
        let is_in_step = self.seen.is_multiple_of(SAMPLE_STEP);
        let takes = self.is_worthwhile || is_in_step || is_chosen(page);
        self.seen += 1;
        self.hashed += u32::from(takes);
        takes
    }

    /// The last page taken is equal to another.
    pub(super) fn found(&mut self) {
        self.equal += 1;
        self.is_worthwhile = true;
    }
}

/// True for one page of `1 << SAMPLE_BITS`, and for all whose sampled words are the same: blank
/// and poisoned pages are often equal.
#[inline]
fn is_chosen(page: &[u8]) -> bool {
    let (words, _) = page.as_chunks::<8>();
    let step = (words.len() / SAMPLED_WORDS).max(1);
    let mut sampled = words.iter().skip(step / 2).step_by(step);
    let first = sampled.next().map_or(0, |word| u64::from_le_bytes(*word));
    let (sum, differ) = sampled.fold((first, 0), |(sum, differ), word| {
        let word = u64::from_le_bytes(*word);
        let sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (sum, differ | (first ^ word))
    });
    differ == 0 || sum >> (u64::BITS - SAMPLE_BITS) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(n: u64) -> Vec<u8> {
        let words =
            (1..=512_u64).map(|word| (word * (2 * n + 1)).wrapping_mul(0x2545_f491_4f6c_dd1d));
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// Shows `search` pages, of which those that `is_equal` are found; returns the number taken.
    fn show(search: &mut EqualSearch, is_equal: impl Fn(u64) -> bool) -> u64 {
        search.begin();
        let mut taken = 0;
        for n in 0..1024 {
            if search.takes(&page(n)) {
                taken += 1;
                if is_equal(n) {
                    search.found();
                }
            }
        }
        taken
    }

    #[test]
    fn pages_are_sampled_while_none_is_equal_and_all_taken_when_some_are() {
        let mut search = EqualSearch::new();
        assert_eq!(show(&mut search, |_| false), 1024, "unknown");
        let sample = show(&mut search, |_| false);
        assert!((32..128).contains(&sample), "{sample}");
        assert!(
            show(&mut search, |n| n >= 512) > 512,
            "from the first equal page on"
        );
        assert_eq!(show(&mut search, |n| n % 32 == 0), 1024);
        assert_eq!(show(&mut search, |_| false), 1024);
        assert_eq!(show(&mut search, |_| false), sample);
    }

    #[test]
    fn equal_pages_are_chosen_together_and_blank_and_poisoned_ones_always() {
        assert!((0..100).all(|n| is_chosen(&page(n)) == is_chosen(&page(n))));
        let mut nearly_empty = vec![0; 4096];
        nearly_empty[0] = 1;
        assert!(is_chosen(&nearly_empty));
        assert!(is_chosen(&[0x6b; 4096]));
        assert!(is_chosen(&[]));
    }
}
