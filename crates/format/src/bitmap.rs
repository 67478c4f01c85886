//! Bitmaps of page frames, least significant bit first, as in dump files.

/// A range of a page bitmap: bit `n` stands for the `n`-th page frame of the range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    bytes: Vec<u8>,
}

impl Bitmap {
    /// Creates a bitmap of `bits` zeros; `bits` is rounded up to a multiple of 64.
    pub fn new(bits: usize) -> Self {
        Self {
            bytes: vec![0; bits.div_ceil(64) * 8],
        }
    }

    /// Number of bits.
    pub fn len(&self) -> usize {
        self.bytes.len() * 8
    }

    /// Returns true if there are no bits.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes, as in a dump file.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes, as in a dump file, for writing.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Clears every bit.
    pub fn clear(&mut self) {
        self.bytes.fill(0);
    }

    /// Returns true if bit `index` is set; bits beyond the end are not.
    #[inline]
    pub fn get(&self, index: usize) -> bool {
        self.bytes
            .get(index / 8)
            .is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }

    /// Sets bit `index`. Panics beyond the end.
    #[inline]
    pub fn set(&mut self, index: usize) {
        self.bytes[index / 8] |= 1 << (index % 8);
    }

    /// Clears bits `start..end`, clamped to the bitmap, and returns how many of them were set.
    pub fn clear_range(&mut self, start: usize, end: usize) -> u64 {
        let end = end.min(self.len());
        if start >= end {
            return 0;
        }
        if end - start == 1 {
            let (byte, mask) = (&mut self.bytes[start / 8], 1 << (start % 8));
            let was_set = *byte & mask != 0;
            *byte &= !mask;
            return u64::from(was_set);
        }
        let mut cleared = 0;
        self.for_each_word(start, end, |word, mask| {
            cleared += u64::from((*word & mask).count_ones());
            *word &= !mask;
        });
        cleared
    }

    /// Clears the bits of `mask` in the `index`-th 64-bit word, and returns those that were
    /// set. Beyond the end there are none.
    #[inline]
    pub fn clear_in_word(&mut self, index: usize, mask: u64) -> u64 {
        let Some(bytes) = self.bytes.as_chunks_mut().0.get_mut(index) else {
            return 0;
        };
        let word = u64::from_le_bytes(*bytes);
        *bytes = (word & !mask).to_le_bytes();
        word & mask
    }

    /// Sets bits `start..end`, clamped to the bitmap.
    pub fn set_range(&mut self, start: usize, end: usize) {
        let end = end.min(self.len());
        if start < end {
            self.for_each_word(start, end, |word, mask| *word |= mask);
        }
    }

    /// Number of set bits.
    pub fn count(&self) -> u64 {
        self.words().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Number of set bits among the first `end`.
    pub fn count_before(&self, end: usize) -> u64 {
        let end = end.min(self.len());
        let full: u64 = self
            .words()
            .take(end / 64)
            .map(|word| u64::from(word.count_ones()))
            .sum();
        let rest = match end % 64 {
            0 => 0,
            bits => {
                let word = self.words().nth(end / 64).unwrap_or(0);
                u64::from((word & ((1 << bits) - 1)).count_ones())
            }
        };
        full + rest
    }

    /// Clears the bits that are not set in `other`.
    pub fn and(&mut self, other: &Bitmap) {
        for (byte, mask) in self.bytes.iter_mut().zip(&other.bytes) {
            *byte &= mask;
        }
    }

    /// Clears the bits that are set in `other`.
    pub fn and_not(&mut self, other: &Bitmap) {
        for (byte, mask) in self.bytes.iter_mut().zip(&other.bytes) {
            *byte &= !mask;
        }
    }

    /// Sets the bits that are set in `other`, which is not longer.
    pub fn or(&mut self, other: &Bitmap) {
        for (byte, bits) in self.bytes.iter_mut().zip(&other.bytes) {
            *byte |= bits;
        }
    }

    /// Returns the next run of set bits at or after `from`: its first bit and its length,
    /// clamped to `end` and to `longest` bits.
    #[inline]
    pub fn next_run(&self, from: usize, end: usize, longest: usize) -> Option<(usize, usize)> {
        let end = end.min(self.len());
        let start = self.next(from, end, 0)?;
        let stop = self.next(start, end.min(start.saturating_add(longest)), u64::MAX);
        let stop = stop.unwrap_or(end.min(start.saturating_add(longest)));
        Some((start, stop - start))
    }

    /// Returns the first bit in `from..end` that is set in `word ^ flip`.
    fn next(&self, from: usize, end: usize, flip: u64) -> Option<usize> {
        let mut index = from;
        while index < end {
            let word = (self.word(index / 64) ^ flip) >> (index % 64);
            if word != 0 {
                let found = index + word.trailing_zeros() as usize;
                return (found < end).then_some(found);
            }
            index = (index / 64 + 1) * 64;
        }
        None
    }

    fn word(&self, index: usize) -> u64 {
        let bytes = self
            .bytes
            .get(index * 8..)
            .and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.bytes
            .as_chunks()
            .0
            .iter()
            .map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn for_each_word(&mut self, start: usize, end: usize, mut change: impl FnMut(&mut u64, u64)) {
        let words = self.bytes.as_chunks_mut().0;
        for (index, bytes) in words
            .iter_mut()
            .enumerate()
            .take(end.div_ceil(64))
            .skip(start / 64)
        {
            let low = start.saturating_sub(index * 64).min(63);
            let high = (end - index * 64).min(64);
            let mask = (u64::MAX << low) & (u64::MAX >> (64 - high));
            let mut word = u64::from_le_bytes(*bytes);
            change(&mut word, mask);
            *bytes = word.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn first_page_frame_is_the_lowest_bit_of_the_first_byte() {
        let mut bitmap = Bitmap::new(100);
        assert_eq!(bitmap.len(), 128);
        bitmap.set(0);
        bitmap.set(9);
        assert_eq!(&bitmap.as_bytes()[..2], &[1, 2]);
    }

    proptest! {
        #[test]
        fn range_operations_equal_single_bit_operations(
            bits in proptest::collection::vec(any::<bool>(), 1..300),
            start in 0_usize..320, len in 0_usize..320, set in any::<bool>(),
        ) {
            let mut bitmap = Bitmap::new(bits.len());
            let mut model = vec![false; bitmap.len()];
            for (index, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
                bitmap.set(index);
                model[index] = true;
            }
            let end = start + len;
            if set {
                bitmap.set_range(start, end);
            } else {
                let expected = model.iter().take(end).skip(start).filter(|bit| **bit).count();
                prop_assert_eq!(bitmap.clear_range(start, end), expected as u64);
            }
            for bit in model.iter_mut().take(end).skip(start) {
                *bit = set;
            }
            prop_assert!((0..model.len()).all(|index| bitmap.get(index) == model[index]));
            let count = |end: usize| model[..end].iter().filter(|bit| **bit).count() as u64;
            prop_assert_eq!(bitmap.count(), count(model.len()));
            prop_assert_eq!(bitmap.count_before(start), count(start.min(model.len())));
        }

        #[test]
        fn operations_on_two_bitmaps_equal_those_on_single_bits(
            one in proptest::collection::vec(any::<u8>(), 16),
            other in proptest::collection::vec(any::<u8>(), 16),
        ) {
            let (one, other) = (Bitmap { bytes: one }, Bitmap { bytes: other });
            type Operation = (fn(&mut Bitmap, &Bitmap), fn(bool, bool) -> bool);
            let operations: [Operation; 3] = [
                (Bitmap::and, |one, other| one && other),
                (Bitmap::and_not, |one, other| one && !other),
                (Bitmap::or, |one, other| one || other),
            ];
            for (operation, expected) in operations {
                let mut result = one.clone();
                operation(&mut result, &other);
                for bit in 0..result.len() {
                    prop_assert_eq!(result.get(bit), expected(one.get(bit), other.get(bit)));
                }
            }
        }

        #[test]
        fn clearing_in_a_word_equals_clearing_its_bits_one_by_one(
            words in proptest::collection::vec(any::<u64>(), 1..4),
            index in 0_usize..5, mask: u64,
        ) {
            let mut bitmap = Bitmap::new(words.len() * 64);
            for (bytes, word) in bitmap.bytes.as_chunks_mut().0.iter_mut().zip(&words) {
                *bytes = word.to_le_bytes();
            }
            let mut expected = bitmap.clone();
            let bits = (0..64).filter(|bit| mask >> bit & 1 == 1);
            let cleared = bits.filter(|bit| {
                expected.clear_range(index * 64 + bit, index * 64 + bit + 1) == 1
            });
            let cleared = cleared.fold(0, |all, bit| all | 1_u64 << bit);
            prop_assert_eq!(bitmap.clear_in_word(index, mask), cleared);
            prop_assert_eq!(bitmap, expected);
        }

        #[test]
        fn runs_visit_every_set_bit_once(
            bits in proptest::collection::vec(any::<bool>(), 1..300),
            end in 0_usize..320, longest in 1_usize..70,
        ) {
            let mut bitmap = Bitmap::new(bits.len());
            (0..bits.len()).filter(|index| bits[*index]).for_each(|index| bitmap.set(index));
            let (mut seen, mut from) = (Vec::new(), 0);
            while let Some((start, len)) = bitmap.next_run(from, end, longest) {
                prop_assert!(len > 0 && len <= longest);
                seen.extend(start..start + len);
                from = start + len;
            }
            let expected: Vec<_> =
                (0..bits.len().min(end)).filter(|index| bits[*index]).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
