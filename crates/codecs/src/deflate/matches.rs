//! The match finder: greedy, with one hash table of positions.

use super::bits::MAX_INPUT;
use super::symbols::{
    DISTANCE_SYMBOLS, END, LENGTHS, LITERAL_SYMBOLS, MAX_DISTANCE, MAX_LEN, MIN_LEN,
    distance_symbol,
};
use crate::matching::common;

const HASH_BITS: u32 = 12;
/// Minimum match length. Shorter repetitions in pages are mostly high bytes of pointers, or
/// zeros, which take as few bits as literals.
const HASH_BYTES: u32 = 6;
/// No match starts in the last bytes of the input: the first bytes of a match are compared with
/// one load.
const TAIL: usize = 16;
/// The search proceeds byte by byte, but without matches its step grows by a fraction `1 / (1
/// << SKIP_SHIFT)` of the distance, so that incompressible data is skipped soon.
const SKIP_SHIFT: u32 = 5;
/// Where that way begins.
const FIRST_WAY: usize = 1 << SKIP_SHIFT;

/// Positions by hash. It is cleared for each piece, so what is not known yet
/// points to the piece's first byte: a place like any other to look for a match.
type Table = [u16; 1 << HASH_BITS];
/// What is before the piece in the window, for loads that end before a position.
const BEFORE: usize = 8;
/// The piece at hand. It is longer than 16 bits can count, so a load at a
/// 16-bit position needs no check.
type Window = [u8; BEFORE + MAX_INPUT + TAIL];

/// What a match finder takes.
pub(super) const MEMORY: usize =
    2 * size_of::<Window>() + size_of::<Table>() + size_of::<[Sequence; MAX_INPUT / 4]>();

/// Literals and then a match.
#[derive(Clone, Copy, Default)]
pub(super) struct Sequence {
    /// How many literals.
    pub literals: u16,
    /// The length of the match, without [`MIN_LEN`].
    pub len: u8,
    pub distance_symbol: u8,
    /// The distance of the match, less one.
    pub distance: u16,
}

/// A piece as sequences, and how often each symbol occurs.
pub(super) struct Parsed {
    sequences: Box<[Sequence; MAX_INPUT / 4]>,
    sequence_count: usize,
    /// All literals, including those after the last match.
    literals: Box<Window>,
    literal_count: usize,
    /// Count of each symbol; one end symbol.
    pub literal_symbols: [u32; LITERAL_SYMBOLS + 2],
    pub distance_symbols: [u32; DISTANCE_SYMBOLS + 2],
}

impl Parsed {
    pub(super) fn sequences(&self) -> &[Sequence] {
        &self.sequences[..self.sequence_count]
    }

    /// The literals, followed by at least 16 unspecified bytes.
    pub(super) fn literals(&self) -> (&[u8], usize) {
        (&self.literals[..], self.literal_count)
    }
}

/// Working memory of the match finder, reused for every page.
pub(super) struct Matches {
    window: Box<Window>,
    table: Box<Table>,
    parsed: Parsed,
}

impl Matches {
    pub(super) fn new() -> Self {
        Self {
            window: Box::new([0; BEFORE + MAX_INPUT + TAIL]),
            table: Box::new([0; 1 << HASH_BITS]),
            parsed: Parsed {
                sequences: Box::new([Sequence::default(); MAX_INPUT / 4]),
                sequence_count: 0,
                literals: Box::new([0; BEFORE + MAX_INPUT + TAIL]),
                literal_count: 0,
                literal_symbols: [0; LITERAL_SYMBOLS + 2],
                distance_symbols: [0; DISTANCE_SYMBOLS + 2],
            },
        }
    }

    /// Parses input of at most [`MAX_INPUT`] bytes.
    pub(super) fn parse(&mut self, piece: &[u8]) -> &Parsed {
        self.window[BEFORE..BEFORE + piece.len()].copy_from_slice(piece);
        let parsed = &mut self.parsed;
        parsed.sequence_count = 0;
        parsed.literal_count = 0;
        parsed.literal_symbols.fill(0);
        parsed.distance_symbols.fill(0);
        let mut pending = 0;
        if piece.len() > TAIL {
            self.table.fill(0);
            pending = self.find(piece.len());
        }
        let parsed = &mut self.parsed;
        let rest = &piece[pending..];
        parsed.literals[parsed.literal_count..][..rest.len()].copy_from_slice(rest);
        parsed.literal_count += rest.len();
        count_bytes(
            &parsed.literals[..parsed.literal_count],
            &mut parsed.literal_symbols,
        );
        parsed.literal_symbols[END] = 1;
        parsed
    }

    /// Finds the matches among the first `len` bytes of the window, and returns the end of the
    /// last one.
    fn find(&mut self, len: usize) -> usize {
        let window = &*self.window;
        let table = &mut *self.table;
        let literals = &mut *self.parsed.literals;
        let sequences = &mut *self.parsed.sequences;
        let literal_symbols = &mut self.parsed.literal_symbols;
        let distance_symbols = &mut self.parsed.distance_symbols;
        let mut literal_count = 0;
        let mut sequence_count = 0;
        let last = len - TAIL;
        let mut pending = 0;
        let mut at = 1;
        'all: loop {
            let mut way = FIRST_WAY;
            let (from, differ) = loop {
                if at >= last {
                    break 'all;
                }
                let bytes = load64(window, at as u16);
                let slot = &mut table[hash(bytes)];
                let from = *slot;
                *slot = at as u16;
                let differ = load64(window, from) ^ bytes;
                if differ << (64 - 8 * HASH_BYTES) == 0 && at - usize::from(from) <= MAX_DISTANCE {
                    break (from, differ);
                }
                let step = way >> SKIP_SHIFT;
                at += step;
                way += step;
            };
            let distance = at - usize::from(from);
            let behind = behind64(window, at as u16) ^ behind64(window, from);
            let bits = match differ {
                0 => 64 + behind.trailing_zeros(),
                _ => differ.trailing_zeros(),
            };
            let mut end = at + (bits / 8) as usize;
            if bits == 128 {
                let piece = &window[BEFORE..BEFORE + len];
                end += common(piece, end, end - distance);
            }
            // The match may extend backwards into the literals: the search skips positions, and
            // does not record those inside matches.
            let differ = before64(window, at as u16) ^ before64(window, from);
            let same = (differ.leading_zeros() / 8) as usize;
            at -= same.min(at - pending).min(usize::from(from));

            let run = at - pending;
            let source = &window[BEFORE + pending..];
            if run <= 16
                && let Some(source) = source.first_chunk::<16>()
                && let Some(to) = literals.get_mut(literal_count..literal_count + 16)
            {
                to.copy_from_slice(source);
            } else {
                literals[literal_count..literal_count + run].copy_from_slice(&source[..run]);
            }
            literal_count += run;

            let distance_symbol = distance_symbol(distance);
            let mut sequence = |literals: usize, len: usize| {
                let len = (len - MIN_LEN) as u8;
                literal_symbols[END + 1 + usize::from(LENGTHS[usize::from(len)].0 & 31)] += 1;
                distance_symbols[usize::from(distance_symbol & 31)] += 1;
                if let Some(place) = sequences.get_mut(sequence_count) {
                    *place = Sequence {
                        literals: literals as u16,
                        len,
                        distance_symbol,
                        distance: (distance - 1) as u16,
                    };
                    sequence_count += 1;
                }
            };
            let (mut literals, mut rest) = (run, end - at);
            while rest > MAX_LEN {
                let part = MAX_LEN.min(rest - MIN_LEN);
                sequence(literals, part);
                (literals, rest) = (0, rest - part);
            }
            sequence(literals, rest);
            pending = end;
            at = end;
        }
        self.parsed.literal_count = literal_count;
        self.parsed.sequence_count = sequence_count;
        pending
    }
}

#[inline(always)]
fn load64(window: &Window, at: u16) -> u64 {
    let at = BEFORE + usize::from(at);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// The eight bytes after those at `at`.
#[inline(always)]
fn behind64(window: &Window, at: u16) -> u64 {
    let at = BEFORE + 8 + usize::from(at);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// The eight bytes before `at`.
#[inline(always)]
fn before64(window: &Window, at: u16) -> u64 {
    let at = usize::from(at);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// The multiplier is 2^64 divided by the golden ratio.
#[inline(always)]
fn hash(bytes: u64) -> usize {
    let bytes = bytes << (64 - 8 * HASH_BYTES);
    (bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HASH_BITS)) as usize
}

/// Counts byte values. Equal consecutive bytes would stall on the same counter, so there are
/// four tables.
fn count_bytes(bytes: &[u8], counts: &mut [u32]) {
    let mut lanes = [[0u16; 256]; 4];
    let (fours, rest) = bytes.as_chunks::<4>();
    for four in fours {
        for (lane, &byte) in lanes.iter_mut().zip(four) {
            lane[usize::from(byte)] += 1;
        }
    }
    for &byte in rest {
        counts[usize::from(byte)] += 1;
    }
    for (byte, count) in counts[..256].iter_mut().enumerate() {
        *count += lanes.iter().map(|lane| u32::from(lane[byte])).sum::<u32>();
    }
}
