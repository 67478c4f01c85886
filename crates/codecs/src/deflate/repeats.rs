//! The description of the codes of a dynamic block (RFC 1951, 3.2.7): their code lengths,
//! run-length encoded and then Huffman coded.

use super::bits::Bits;
use super::huffman::{Builder, Code, Entry, code_bits};
use super::symbols::{DISTANCE_SYMBOLS, LITERAL_SYMBOLS};

const MAX_CODE_LENGTH_BITS: usize = 7;
const CODE_LENGTH_SYMBOLS: usize = 19;
/// Storage order of the lengths of the code length code.
const CODE_LENGTH_ORDER: [u8; CODE_LENGTH_SYMBOLS] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];
/// Number of extra bits of the symbols 16, 17 and 18.
const REPEAT_EXTRA: [u8; CODE_LENGTH_SYMBOLS] =
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 7];

/// The run-length encoded code lengths of both codes.
pub(super) struct Repeats {
    literal_count: usize,
    distance_count: usize,
    /// The code lengths of both codes, concatenated.
    lengths: [u8; LITERAL_SYMBOLS + DISTANCE_SYMBOLS],
    /// Symbols, with their extra bits above the five symbol bits.
    items: [u16; LITERAL_SYMBOLS + DISTANCE_SYMBOLS],
    item_count: usize,
    counts: [u32; CODE_LENGTH_SYMBOLS],
    code: Code,
    /// Number of stored lengths of `code`.
    stored: usize,
}

impl Repeats {
    pub(super) fn new() -> Self {
        Self {
            literal_count: 0,
            distance_count: 0,
            lengths: [0; LITERAL_SYMBOLS + DISTANCE_SYMBOLS],
            items: [0; LITERAL_SYMBOLS + DISTANCE_SYMBOLS],
            item_count: 0,
            counts: [0; CODE_LENGTH_SYMBOLS],
            code: Code::new(),
            stored: 0,
        }
    }

    fn push(&mut self, symbol: u8, extra: usize) {
        self.items[self.item_count] = u16::from(symbol) | (extra as u16) << 5;
        self.item_count += 1;
        self.counts[usize::from(symbol)] += 1;
    }

    /// Run-length encodes the lengths of a block's two codes.
    pub(super) fn find(&mut self, literals: &Code, distances: &Code, builder: &mut Builder) {
        let (literals, distances) = (literals.lengths_to_last(), distances.lengths_to_last());
        (self.literal_count, self.distance_count) = (literals.len(), distances.len());
        let all = literals.len() + distances.len();
        self.lengths[..literals.len()].copy_from_slice(literals);
        self.lengths[literals.len()..all].copy_from_slice(distances);
        self.item_count = 0;
        self.counts = [0; CODE_LENGTH_SYMBOLS];
        let mut at = 0;
        while at < all {
            let len = self.lengths[at];
            let mut run = self.lengths[at..all]
                .iter()
                .take_while(|&&other| other == len)
                .count();
            at += run;
            if len == 0 {
                while run >= 11 {
                    let count = run.min(138);
                    self.push(18, count - 11);
                    run -= count;
                }
                if run >= 3 {
                    self.push(17, run - 3);
                    run = 0;
                }
            } else if run >= 4 {
                self.push(len, 0);
                run -= 1;
                while run >= 3 {
                    let count = run.min(6);
                    self.push(16, count - 3);
                    run -= count;
                }
            }
            for _ in 0..run {
                self.push(len, 0);
            }
        }
        builder.lengths(&self.counts, MAX_CODE_LENGTH_BITS, &mut self.code);
        let last = CODE_LENGTH_ORDER
            .iter()
            .rposition(|&symbol| self.code.lengths[usize::from(symbol)] != 0);
        self.stored = last.map_or(4, |last| (last + 1).max(4));
    }

    /// Number of bits that [`Repeats::write`] writes.
    pub(super) fn bits(&self) -> u32 {
        14 + 3 * self.stored as u32
            + code_bits(&self.counts, &self.code.lengths)
            + code_bits(&self.counts, &REPEAT_EXTRA)
    }

    /// Writes the description of both codes.
    pub(super) fn write<'a>(&self, mut bits: Bits<'a>) -> Bits<'a> {
        bits.put((self.literal_count - 257) as u64, 5);
        bits.put((self.distance_count - 1) as u64, 5);
        bits.put((self.stored - 4) as u64, 4);
        bits.flush();
        for order in CODE_LENGTH_ORDER[..self.stored].chunks(16) {
            for &symbol in order {
                bits.put(u64::from(self.code.lengths[usize::from(symbol)]), 3);
            }
            bits.flush();
        }
        let mut entries = [Entry::default(); CODE_LENGTH_SYMBOLS];
        self.code.each(|symbol, len, code| {
            if let Some(entry) = entries.get_mut(symbol) {
                *entry = Entry::new(code, len, REPEAT_EXTRA[symbol]);
            }
        });
        for &item in &self.items[..self.item_count] {
            let entry = entries[usize::from(item & 31)];
            let code = entry.bits() | u64::from(item >> 5) << entry.len();
            bits.put(code, entry.whole_len());
            bits.flush();
        }
        bits
    }
}
