//! Blocks of a deflate stream (RFC 1951, 3.2.3 to 3.2.7).

use super::bits::{Bits, Buffer, PendingBits};
use super::huffman::{Builder, Code, Entry, code_bits};
use super::matches::Parsed;
use super::repeats::Repeats;
use super::symbols::{
    DISTANCE_EXTRA, DISTANCE_SYMBOLS, END, LENGTH_EXTRA, LENGTHS, LITERAL_SYMBOLS,
};

/// Maximum length of a literal or length code. The format allows 15, but with 12, four literals
/// fit between two flushes; codes of a page are rarely longer.
const MAX_LITERAL_BITS: usize = 12;
const MAX_DISTANCE_BITS: usize = 12;

/// Maximum size of a stored block, whose length has 16 bits.
const MAX_STORED: usize = 65535;

/// The codes of one block.
struct Codes {
    literals: [Entry; LITERAL_SYMBOLS + 2],
    distances: [Entry; DISTANCE_SYMBOLS + 2],
}

/// Working memory for encoding blocks, reused for each.
pub(super) struct Blocks {
    builder: Builder,
    literals: Code,
    distances: Code,
    codes: Codes,
    fixed: Codes,
    repeats: Repeats,
}

impl Blocks {
    pub(super) fn new() -> Self {
        let mut literals = [0; LITERAL_SYMBOLS + 2];
        for (symbol, len) in literals.iter_mut().enumerate() {
            *len = fixed_len(symbol);
        }
        let mut fixed = Codes::new();
        fixed.set(&Code::of(&literals), &Code::of(&[5; DISTANCE_SYMBOLS + 2]));
        Self {
            builder: Builder::new(),
            literals: Code::new(),
            distances: Code::new(),
            codes: Codes::new(),
            fixed,
            repeats: Repeats::new(),
        }
    }

    /// Writes `piece`, parsed as `parsed`, as the shortest kind of block, but only if the
    /// result takes at most `most` bytes.
    pub(super) fn write(
        &mut self,
        piece: &[u8],
        parsed: &Parsed,
        last: bool,
        most: usize,
        held: PendingBits,
        room: &mut Buffer,
    ) -> Option<(usize, PendingBits)> {
        let (literals, distances) = (&mut self.literals, &mut self.distances);
        let literal_counts = &parsed.literal_symbols[..LITERAL_SYMBOLS];
        let distance_counts = &parsed.distance_symbols[..DISTANCE_SYMBOLS];
        self.builder
            .lengths(literal_counts, MAX_LITERAL_BITS, literals);
        self.builder
            .lengths(distance_counts, MAX_DISTANCE_BITS, distances);
        self.repeats.find(literals, distances, &mut self.builder);

        let extra = code_bits(&literal_counts[END + 1..], &LENGTH_EXTRA)
            + code_bits(distance_counts, &DISTANCE_EXTRA);
        let dynamic = 3
            + self.repeats.bits()
            + code_bits(literal_counts, &literals.lengths)
            + code_bits(distance_counts, &distances.lengths)
            + extra;
        let fixed = 3 + extra + fixed_bits(parsed);
        let stored_blocks = piece.len().div_ceil(MAX_STORED).max(1) as u32;
        let align = (held.count() + 3).next_multiple_of(8) - held.count();
        let stored = align + 8 * piece.len() as u32 + stored_blocks * 32 + (stored_blocks - 1) * 8;

        let least = dynamic.min(fixed).min(stored);
        // Nothing is written unless it fits.
        if (held.count() + least).div_ceil(8) as usize > most {
            return None;
        }
        let mut bits = Bits::new(room, held);
        if least == stored {
            store(piece, last, &mut bits);
            return Some(bits.finish());
        }
        bits.put(u64::from(last), 1);
        if least == fixed {
            bits.put(1, 2);
            bits = self.fixed.write(parsed, bits);
        } else {
            bits.put(2, 2);
            bits = self.repeats.write(bits);
            self.codes.set(literals, distances);
            bits = self.codes.write(parsed, bits);
        }
        Some(bits.finish())
    }
}

/// Code lengths of fixed blocks (3.2.6).
const fn fixed_len(symbol: usize) -> u8 {
    match symbol {
        0..144 => 8,
        144..256 => 9,
        256..280 => 7,
        _ => 8,
    }
}

fn fixed_bits(parsed: &Parsed) -> u32 {
    let literals = &parsed.literal_symbols;
    8 * literals.iter().sum::<u32>() + literals[144..256].iter().sum::<u32>()
        - literals[256..280].iter().sum::<u32>()
        + 5 * parsed.distance_symbols.iter().sum::<u32>()
}

/// Writes `piece` as stored blocks.
fn store(piece: &[u8], last: bool, bits: &mut Bits<'_>) {
    let mut rest = piece;
    loop {
        let (part, behind) = rest.split_at(rest.len().min(MAX_STORED));
        bits.put(u64::from(last && behind.is_empty()), 3);
        bits.align();
        let len = part.len() as u16;
        bits.bytes(&len.to_le_bytes());
        bits.bytes(&(!len).to_le_bytes());
        bits.bytes(part);
        rest = behind;
        if rest.is_empty() {
            return;
        }
    }
}

/// Masks that select the first 0 to 4 of four.
static FIRST: [[u32; 4]; 5] = [
    [0; 4],
    [!0, 0, 0, 0],
    [!0, !0, 0, 0],
    [!0, !0, !0, 0],
    [!0; 4],
];

impl Codes {
    fn new() -> Self {
        Self {
            literals: [Entry::default(); LITERAL_SYMBOLS + 2],
            distances: [Entry::default(); DISTANCE_SYMBOLS + 2],
        }
    }

    fn set(&mut self, literals: &Code, distances: &Code) {
        literals.each(|symbol, len, code| {
            let extra = symbol.checked_sub(END + 1);
            let extra = extra.and_then(|length| LENGTH_EXTRA.get(length));
            if let Some(entry) = self.literals.get_mut(symbol) {
                *entry = Entry::new(code, len, extra.copied().unwrap_or(0));
            }
        });
        distances.each(|symbol, len, code| {
            let extra = DISTANCE_EXTRA.get(symbol).copied().unwrap_or(0);
            if let Some(entry) = self.distances.get_mut(symbol) {
                *entry = Entry::new(code, len, extra);
            }
        });
    }

    fn write<'a>(&self, parsed: &Parsed, mut bits: Bits<'a>) -> Bits<'a> {
        let (literals, literal_count) = parsed.literals();
        let mut at = 0;
        bits.flush();
        for sequence in parsed.sequences() {
            let count = usize::from(sequence.literals);
            self.literal_run(literals, at, count, &mut bits);
            at += count;
            let (symbol, extra) = LENGTHS[usize::from(sequence.len)];
            let code = self.literals[END + 1 + usize::from(symbol)];
            let len = code.bits() | u64::from(extra) << code.len();
            let len_bits = code.whole_len();
            let code = self.distances[usize::from(sequence.distance_symbol & 31)];
            let extra_bits = code.whole_len() - code.len();
            let extra = u32::from(sequence.distance) & ((1 << (extra_bits & 31)) - 1);
            let distance = code.bits() | u64::from(extra) << code.len();
            bits.put(
                len | distance << (len_bits & 63),
                len_bits + code.whole_len(),
            );
            bits.flush();
        }
        self.literal_run(literals, at, literal_count - at, &mut bits);
        let end = self.literals[END];
        bits.put(end.bits(), end.len());
        bits.flush();
        bits
    }

    /// Writes `count` literals. Most runs are short: up to four are written without a branch on
    /// their number.
    #[inline(always)]
    fn literal_run(&self, literals: &[u8], mut at: usize, count: usize, bits: &mut Bits<'_>) {
        let end = at + count;
        loop {
            let left = end - at;
            if let Some(four) = literals.get(at..at + 4) {
                let masks = &FIRST[left.min(4)];
                let code =
                    |index: usize| self.literals[usize::from(four[index])].masked(masks[index]);
                let (a, b, c, d) = (code(0), code(1), code(2), code(3));
                let ab = a.bits() | b.bits() << a.len();
                let cd = c.bits() | d.bits() << c.len();
                let (ab_len, cd_len) = (a.plus(b), c.plus(d));
                bits.put(ab | cd << ab_len.len(), ab_len.plus(cd_len).len());
                bits.flush();
            }
            at += 4;
            if at >= end {
                return;
            }
        }
    }
}
