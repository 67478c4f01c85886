//! What is asked of every page: is it zero, and is there an equal one?

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64;

/// Whether all bytes are zero. Most pages that are not show it at once.
#[inline]
pub fn is_zero(page: &[u8]) -> bool {
    page.chunks(256)
        .all(|piece| piece.iter().fold(0, |sum, byte| sum | byte) == 0)
}

/// A hash of a page's bytes. Pages with equal hashes may still differ.
#[inline]
pub fn hash_of(page: &[u8]) -> u64 {
    xxh3_64(page)
}

/// Something by the hash of a page.
pub type ByPageHash<T> = HashMap<u64, T, BuildHasherDefault<AlreadyHashed>>;

/// Hashes of pages need no hashing.
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
