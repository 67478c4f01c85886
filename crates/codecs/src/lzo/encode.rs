//! The encoder: greedy, with one hash table of the positions of four bytes.

use std::hint::select_unpredictable;

use super::stream::{
    END, FIRST_LITERALS, MAX_DISTANCE, MAX_FIRST_LITERALS, MAX_MIDDLE_DISTANCE, MAX_SHORT_DISTANCE,
    MAX_SHORT_LEN,
};
use crate::matching::common;

const HASH_BITS: u32 = 12;
/// Maximum input matched at once, because positions have 16 bits.
const MAX_INPUT: usize = 1 << 16;
/// No match starts in the last bytes of the input: the first bytes of a match are compared with
/// one load.
const TAIL: usize = 16;
/// Maximum match of the three-byte `001L_LLLL` instruction.
const MAX_MIDDLE_LEN: usize = 33;
/// The search proceeds byte by byte, but without matches its step grows by a fraction `1 / (1
/// << SKIP_SHIFT)` of the distance, so that incompressible data is skipped soon.
const SKIP_SHIFT: u32 = 5;
/// Initial value of that distance. With 40, steps of two bytes come earlier than with 32, for 1
/// to 4 % less time and 0.4 % more output.
const FIRST_WAY: usize = 40;

/// Positions by hash. The table is cleared for each block of input, so unused entries point to
/// its first byte, a candidate like any other. Keeping entries of earlier blocks would need a
/// branch between "old" and "known" that is unpredictable, and costs far more than clearing.
type Table = [u16; 1 << HASH_BITS];

/// The input at hand. It is longer than 16 bits can address, so a load at a 16-bit position
/// needs no bounds check: without this copy, safe code took a third more time.
type Window = [u8; MAX_INPUT + TAIL];

/// Memory of an encoder.
pub(super) const MEMORY: usize = size_of::<Table>() + size_of::<Window>();

/// The encoder with its working memory, reused for every page.
pub struct Encoder {
    window: Box<Window>,
    table: Box<Table>,
}

impl Encoder {
    /// Creates an encoder.
    #[allow(clippy::new_without_default, reason = "takes memory")]
    pub fn new() -> Self {
        Self {
            window: Box::new([0; MAX_INPUT + TAIL]),
            table: Box::new([0; 1 << HASH_BITS]),
        }
    }

    /// Encodes `src` as one stream; returns `None` if it does not fit in `dst`.
    pub fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        let mut out = Out { dst, len: 0 };
        // Start of the literals that are not yet in the stream.
        let mut pending = 0;
        for start in (0..src.len()).step_by(MAX_INPUT) {
            let len = MAX_INPUT.min(src.len() - start);
            if len <= TAIL {
                break;
            }
            self.window[..len].copy_from_slice(&src[start..start + len]);
            pending = self.matches(src, start, len, pending, &mut out)?;
        }
        out.literals(&src[pending..])?;
        out.bytes(&END)?;
        Some(out.len)
    }

    /// Encodes the matches among the `len` bytes of `src` from `start`, which are in the
    /// window, and returns the new `pending`.
    fn matches(
        &mut self,
        src: &[u8],
        start: usize,
        len: usize,
        mut pending: usize,
        out: &mut Out<'_>,
    ) -> Option<usize> {
        self.table.fill(0);
        let window = &*self.window;
        let last = len - TAIL;
        let mut at = 1;
        loop {
            let mut way = FIRST_WAY;
            let from = loop {
                if at >= last {
                    return Some(pending);
                }
                let bytes = load32(window, at as u16);
                let slot = &mut self.table[hash(bytes)];
                let from = *slot;
                *slot = at as u16;
                if load32(window, from) == bytes && at - usize::from(from) <= MAX_DISTANCE {
                    break from;
                }
                let step = way >> SKIP_SHIFT;
                at += step;
                way += step;
            };
            let differ = load128(window, at as u16) ^ load128(window, from);
            let from = usize::from(from);
            let mut end = at + (differ.trailing_zeros() / 8) as usize;
            if differ == 0 {
                end += common(&window[..len], end, from + TAIL);
            }
            out.sequence(&src[pending..], start + at - pending, at - from, end - at)?;
            pending = start + end;
            at = end;
        }
    }
}

/// The output; every method checks its end.
struct Out<'a> {
    dst: &'a mut [u8],
    len: usize,
}

impl Out<'_> {
    #[inline]
    fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.dst.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    /// Writes the low `count` bytes of `bytes`.
    #[inline]
    fn few(&mut self, bytes: u32, count: usize) -> Option<()> {
        let bytes = bytes.to_le_bytes();
        match self.dst[self.len..].first_chunk_mut() {
            Some(front) => {
                *front = bytes;
                self.len += count;
                Some(())
            }
            None => self.bytes(&bytes[..count]),
        }
    }

    /// Writes the part of a length that does not fit into its field.
    #[cold]
    fn rest(&mut self, mut rest: usize) -> Option<()> {
        while rest > 255 {
            self.few(0, 1)?;
            rest -= 255;
        }
        self.few(rest as u32, 1)
    }

    /// Writes the first `count` bytes of `src` as literals, then a match of `len` bytes.
    ///
    /// The common case, a short run and a short match away from the end of the output, has no
    /// data-dependent branch.
    #[inline(always)]
    fn sequence(&mut self, src: &[u8], count: usize, distance: usize, len: usize) -> Option<()> {
        let usual = (count <= 16) & (len <= MAX_MIDDLE_LEN) & (distance <= MAX_MIDDLE_DISTANCE);
        // From the byte of the previous match that stores the number of literals.
        if usual
            && let Some(wide) = src.first_chunk::<16>()
            && let Some(front) = self.dst.get_mut(self.len.wrapping_sub(2)..)
            && let Some(front) = front.first_chunk_mut::<40>()
        {
            let own_byte = count > 3;
            front[0] |= if own_byte { 0 } else { count as u8 };
            front[2] = (count as u8).wrapping_sub(3);
            let at = 2 + usize::from(own_byte);
            front[at..at + 16].copy_from_slice(wide);
            let at = at + count;
            let short = (len <= MAX_SHORT_LEN) & (distance <= MAX_SHORT_DISTANCE);
            let token = select_unpredictable(
                short,
                short_match(distance, len),
                middle_match(distance, len),
            );
            front[at..at + 4].copy_from_slice(&token.to_le_bytes());
            self.len += at - 2 + 3 - usize::from(short);
            return Some(());
        }
        self.unusual(src, count, distance, len)
    }

    #[inline(never)]
    fn unusual(&mut self, src: &[u8], count: usize, distance: usize, len: usize) -> Option<()> {
        self.literals(&src[..count])?;
        self.copy(distance, len)
    }

    /// Writes `src` as literals.
    fn literals(&mut self, src: &[u8]) -> Option<()> {
        let count = src.len();
        if count == 0 {
            return Some(());
        }
        if self.len == 0 && count <= MAX_FIRST_LITERALS {
            self.few(u32::from(FIRST_LITERALS) + count as u32, 1)?;
        } else if count <= 3 {
            // The previous match stores the number in its last byte but one.
            self.dst[self.len - 2] |= count as u8;
        } else if count <= 18 {
            self.few(count as u32 - 3, 1)?;
        } else {
            self.few(0, 1)?;
            self.rest(count - 18)?;
        }
        self.bytes(src)
    }

    /// Writes a match of `len` bytes.
    fn copy(&mut self, distance: usize, len: usize) -> Option<()> {
        if len <= MAX_SHORT_LEN && distance <= MAX_SHORT_DISTANCE {
            return self.few(short_match(distance, len), 2);
        }
        let (kind, d, max_len) = if distance <= MAX_MIDDLE_DISTANCE {
            (32, distance as u32 - 1, MAX_MIDDLE_LEN)
        } else {
            let d = (distance - MAX_MIDDLE_DISTANCE) as u32;
            (16 | d >> 11 & 8, d & 0x3fff, 9)
        };
        if len <= max_len {
            return self.few(kind | (len as u32 - 2) | d << 10, 3);
        }
        self.few(kind, 1)?;
        self.rest(len - max_len)?;
        self.few(d << 2, 2)
    }
}

/// Encodes the two bytes of a match `LLLD_DDSS`.
#[inline]
fn short_match(distance: usize, len: usize) -> u32 {
    let d = distance as u32 - 1;
    (len as u32 - 1) << 5 | (d & 7) << 2 | d >> 3 << 8
}

/// Encodes the three bytes of a match `001L_LLLL`, up to [`MAX_MIDDLE_LEN`].
#[inline]
fn middle_match(distance: usize, len: usize) -> u32 {
    32 | (len as u32 - 2) | (distance as u32 - 1) << 10
}

#[inline]
fn load32(window: &Window, at: u16) -> u32 {
    let at = usize::from(at);
    let bytes = &window[at..at + 4];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[inline]
fn load128(window: &Window, at: u16) -> u128 {
    let at = usize::from(at);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&window[at..at + 16]);
    u128::from_le_bytes(bytes)
}

/// The multiplier is 2^32 divided by the golden ratio.
#[inline]
fn hash(bytes: u32) -> usize {
    (bytes.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
}
