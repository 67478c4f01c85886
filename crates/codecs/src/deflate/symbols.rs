//! The symbols of lengths and distances (RFC 1951, 3.2.5).

pub(super) const MIN_LEN: usize = 3;
pub(super) const MAX_LEN: usize = 258;
pub(super) const MAX_DISTANCE: usize = 32768;

/// The end-of-block symbol; those above are lengths, those below bytes.
pub(super) const END: usize = 256;
/// Number of symbols for literals and lengths.
pub(super) const LITERAL_SYMBOLS: usize = 286;
/// Number of symbols for distances.
pub(super) const DISTANCE_SYMBOLS: usize = 30;

/// Number of extra bits by length symbol.
pub(super) const LENGTH_EXTRA: [u8; 29] = [
    0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
];

/// Number of extra bits by distance symbol.
pub(super) const DISTANCE_EXTRA: [u8; DISTANCE_SYMBOLS] = [
    0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13,
    13,
];

/// By length minus [`MIN_LEN`]: the index of its symbol, and the value of the extra bits.
pub(super) static LENGTHS: [(u8, u8); MAX_LEN - MIN_LEN + 1] = {
    let mut lengths = [(0, 0); MAX_LEN - MIN_LEN + 1];
    let (mut symbol, mut len) = (0, 0);
    while symbol < 29 {
        // Symbol 284 could also encode 258, which has its own symbol.
        let mut extra = 0;
        while extra < 1 << LENGTH_EXTRA[symbol] && len < lengths.len() {
            lengths[len] = (symbol as u8, extra as u8);
            len += 1;
            extra += 1;
        }
        symbol += 1;
        if symbol == 28 {
            len = lengths.len() - 1;
        }
    }
    lengths
};

/// Symbol of a distance of at most [`MAX_DISTANCE`].
#[inline(always)]
pub(super) fn distance_symbol(distance: usize) -> u8 {
    let d = distance as u32 - 1;
    // The highest bit and the one below it.
    let high = (d | 2).ilog2();
    let symbol = 2 * high + (d >> (high - 1) & 1);
    (if d < 2 { d } else { symbol }) as u8
}
