//! The contents of pages that hold no tables.

use super::blocks::BlockKind;
use super::hash::mix;
use super::layout::{PAGE, PAGE_OFFSET};

/// Size of the pool of bytes from which pages are cut: a quarter text, a quarter pointers, half
/// noise.
const POOL: usize = 1 << 20;
const PART: usize = POOL / 4;
/// Number of distinct pages among those that have duplicates.
const EQUAL_PAGES: u64 = 64;
/// Distance in bytes between changed words, which make all other pages distinct.
const CHANGE_EVERY: usize = 512;

const WORDS: [&str; 16] = [
    "the ",
    "kernel ",
    "page ",
    "of ",
    "table=",
    "index ",
    "0x1f ",
    "select ",
    "row\t",
    "value,",
    "2026-",
    "error: ",
    "ok\n",
    "user ",
    "node ",
    "{\"id\": ",
];

/// Cuts pages out of a pool of typical bytes.
pub(super) struct Contents {
    seed: u64,
    pool: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Content {
    Zero,
    Constant,
    Equal,
    Text,
    Pointers,
    Noise,
}

impl Contents {
    pub(super) fn new(seed: u64) -> Self {
        let mut pool = Vec::with_capacity(POOL);
        let mut number = mix(seed);
        while pool.len() < PART {
            number = mix(number);
            let word = WORDS[number as usize % WORDS.len()].as_bytes();
            pool.extend_from_slice(&word[..word.len().min(PART - pool.len())]);
        }
        while pool.len() < 2 * PART {
            number = mix(number);
            // Objects of 64 bytes: list pointers, counters, empty fields.
            let object = PAGE_OFFSET + (number & 0xff_ffc0);
            let words = [object, object + 64, number >> 56, 0, 0, object | 8, 1, 0];
            words
                .iter()
                .for_each(|word: &u64| pool.extend_from_slice(&word.to_le_bytes()));
        }
        while pool.len() < POOL {
            number = mix(number);
            pool.extend_from_slice(&number.to_le_bytes());
        }
        Self { seed, pool }
    }

    /// Writes the page of `frame`, in a block of `kind`.
    pub(super) fn write(&self, kind: BlockKind, frame: u64, page: &mut [u8]) {
        let hash = mix(self.seed ^ frame.rotate_left(32));
        match content(kind, hash % 100) {
            Content::Zero => page.fill(0),
            Content::Constant => page.fill(0x5a),
            Content::Equal => {
                let start = (hash >> 32 & (EQUAL_PAGES - 1)) as usize * PAGE;
                page.copy_from_slice(&self.pool[start..start + PAGE]);
            }
            Content::Text => self.cut(hash, 0..PART, page),
            Content::Pointers => self.cut(hash, PART..2 * PART, page),
            Content::Noise => self.cut(hash, 2 * PART..POOL, page),
        }
    }

    fn cut(&self, hash: u64, part: std::ops::Range<usize>, page: &mut [u8]) {
        let places = (part.len() - PAGE) / 64;
        let start = part.start + (hash >> 32) as usize % places * 64;
        page.copy_from_slice(&self.pool[start..start + PAGE]);
        for (index, piece) in page.chunks_exact_mut(CHANGE_EVERY).enumerate() {
            piece[..8].copy_from_slice(&mix(hash + index as u64).to_le_bytes());
        }
    }
}

/// Selects the content of a page by a number below 100.
fn content(kind: BlockKind, percent: u64) -> Content {
    use Content::{Constant, Equal, Noise, Pointers, Text, Zero};
    let shares: [(u64, Content); 5] = match kind {
        BlockKind::Static | BlockKind::MemMap | BlockKind::Kernel => [
            (25, Zero),
            (2, Constant),
            (8, Equal),
            (25, Text),
            (30, Pointers),
        ],
        BlockKind::Slab(_) => [
            (5, Zero),
            (5, Constant),
            (5, Equal),
            (15, Text),
            (60, Pointers),
        ],
        BlockKind::Free(_) => [
            (40, Zero),
            (5, Constant),
            (5, Equal),
            (20, Text),
            (20, Pointers),
        ],
        BlockKind::Cache(_) | BlockKind::LargeCache => [
            (5, Zero),
            (0, Constant),
            (5, Equal),
            (60, Text),
            (5, Pointers),
        ],
        BlockKind::Hugetlb | BlockKind::Transparent | BlockKind::Anonymous => [
            (20, Zero),
            (2, Constant),
            (5, Equal),
            (25, Text),
            (28, Pointers),
        ],
    };
    let mut left = percent;
    for (share, content) in shares {
        if left < share {
            return content;
        }
        left -= share;
    }
    Noise
}
