//! The bytes of pages that were found more than once.
//!
//! A page with the hash of a stored one is compared with it, which is read again for that. A few
//! pages, such as poisoned ones, are equal to hundreds: their bytes are kept.

use bigiron_format::PageFrame;

/// Memory of all pages kept, unless a single one is larger.
const BYTES: usize = 64 << 10;

struct Repeated {
    hash: u64,
    frame: PageFrame,
    bytes: Vec<u8>,
}

/// Pages by their hashes; each place keeps the latest.
pub(super) struct RepeatedPages {
    places: Vec<Option<Repeated>>,
}

impl RepeatedPages {
    pub(super) fn new(page_size: usize) -> Self {
        let count = (BYTES / page_size).max(1);
        Self {
            places: (0..count).map(|_| None).collect(),
        }
    }

    fn place(&self, hash: u64) -> usize {
        (hash % self.places.len() as u64) as usize
    }

    /// Returns the bytes of `frame`, which has this hash, if they are kept.
    pub(super) fn get(&self, hash: u64, frame: PageFrame) -> Option<&[u8]> {
        let kept = self.places[self.place(hash)].as_ref()?;
        (kept.hash == hash && kept.frame == frame).then_some(&kept.bytes)
    }

    /// Keeps the bytes of `frame`.
    pub(super) fn keep(&mut self, hash: u64, frame: PageFrame, page: &[u8]) {
        let place = self.place(hash);
        let bytes = match self.places[place].take() {
            Some(mut old) => {
                old.bytes.clear();
                old.bytes.extend_from_slice(page);
                old.bytes
            }
            None => page.to_vec(),
        };
        self.places[place] = Some(Repeated { hash, frame, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_bytes_are_those_of_the_frame_until_another_takes_the_place() {
        let mut pages = RepeatedPages::new(4096);
        let places = pages.places.len() as u64;
        assert_eq!(pages.get(5, PageFrame(1)), None);
        pages.keep(5, PageFrame(1), &[1; 4096]);
        assert_eq!(pages.get(5, PageFrame(1)), Some(&[1; 4096][..]));
        assert_eq!(pages.get(5, PageFrame(2)), None, "another frame");
        assert_eq!(pages.get(5 + places, PageFrame(1)), None, "another hash");
        pages.keep(5 + places, PageFrame(3), &[3; 4096]);
        assert_eq!(pages.get(5, PageFrame(1)), None);
        assert_eq!(pages.get(5 + places, PageFrame(3)), Some(&[3; 4096][..]));
    }
}
