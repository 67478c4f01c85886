//! Operations on every page: the test for zeros, comparison and hashing.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64;

/// Returns true if all bytes are zero. Most other pages differ from zero in their first bytes.
#[inline]
pub fn is_zero(page: &[u8]) -> bool {
    page.chunks(256)
        .all(|piece| piece.iter().fold(0, |sum, byte| sum | byte) == 0)
}

/// Returns true if two pages, or runs of pages, have the same bytes. Most pages compared are
/// equal. `==` would call the C library, and musl's memcmp compares one byte after the other.
#[inline]
pub fn are_equal(one: &[u8], other: &[u8]) -> bool {
    let ((one, one_rest), (other, other_rest)) = (one.as_chunks::<256>(), other.as_chunks());
    let differ = |one: &[u8; 256], other: &[u8; 256]| {
        let bytes = one.iter().zip(other);
        bytes.fold(0, |sum, (one, other)| sum | (one ^ other)) != 0
    };
    one.len() == other.len()
        && one_rest == other_rest
        && !one.iter().zip(other).any(|(one, other)| differ(one, other))
}

/// Returns a hash of a page's bytes. Pages with equal hashes may still differ.
#[inline]
pub fn hash_of(page: &[u8]) -> u64 {
    xxh3_64(page)
}

/// A map with the hash of a page as its key.
pub type ByPageHash<T> = HashMap<u64, T, BuildHasherDefault<AlreadyHashed>>;

/// Hasher for hashes of pages, which need no further hashing.
#[derive(Debug, Default)]
pub struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, byte| hash << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_equal_only_if_every_byte_and_the_length_are() {
        for len in [0, 1, 255, 256, 257, 4096, 4100] {
            let one: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            assert!(are_equal(&one, &one.clone()), "{len}");
            assert!(!are_equal(&one, &[&one[..], &[0]].concat()), "{len}");
            for at in 0..len {
                let mut other = one.clone();
                other[at] ^= 0x80;
                assert!(!are_equal(&one, &other), "byte {at} of {len}");
            }
        }
    }
}
