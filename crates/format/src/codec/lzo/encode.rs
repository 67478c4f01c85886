//! The encoder: greedy, with one hash table of the places of four bytes.

use super::{
    END, FIRST_LITERALS, MAX_DISTANCE, MAX_FIRST_LITERALS, MAX_MIDDLE_DISTANCE, MAX_SHORT_DISTANCE,
    MAX_SHORT_LEN,
};

const HASH_BITS: u32 = 13;
/// Positions are 16 bits wide, so longer input is matched piece by piece.
const MAX_PIECE: usize = 1 << 16;
/// The shortest match, and what is hashed.
const MIN_MATCH: usize = 4;
/// No match begins in the last bytes of a piece.
const TAIL: usize = 8;
/// The search goes byte by byte, but where it finds nothing, the steps grow by
/// one part in `1 << SKIP_SHIFT` of the way: what does not compress is left soon.
const SKIP_SHIFT: u32 = 5;

/// Positions by hash, each with `base` added.
type Table = [u16; 1 << HASH_BITS];

/// The piece at hand. It is longer than 16 bits can count, so a load at a
/// 16-bit position needs no check: without the copy, safe code took a third
/// more time.
type Window = [u8; MAX_PIECE + 8];

/// What an encoder takes.
pub(super) const MEMORY: usize = size_of::<Table>() + size_of::<Window>();

/// The match finder's memory, used again for every page.
pub(super) struct Encoder {
    window: Box<Window>,
    table: Box<Table>,
    /// Entries below belong to earlier pieces. Moving it on by the length of
    /// each piece forgets them without clearing the table each time.
    base: u16,
}

impl Encoder {
    pub(super) fn new() -> Self {
        Self {
            window: Box::new([0; MAX_PIECE + 8]),
            table: Box::new([0; 1 << HASH_BITS]),
            base: 1,
        }
    }

    /// Encodes `src` as one stream; `None` if it does not fit in `dst`.
    pub(super) fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        let mut out = Out { dst, len: 0 };
        // Where the literals begin that are not in the stream yet.
        let mut pending = 0;
        for start in (0..src.len()).step_by(MAX_PIECE) {
            let len = MAX_PIECE.min(src.len() - start);
            if len < MIN_MATCH + TAIL {
                break;
            }
            self.window[..len].copy_from_slice(&src[start..start + len]);
            pending = self.matches(src, start, len, pending, &mut out)?;
        }
        out.last_literals(&src[pending..])?;
        out.bytes(&END)?;
        Some(out.len)
    }

    /// Encodes the matches among the `len` bytes of `src` that begin at
    /// `start`, which are in the window, and returns the new `pending`.
    fn matches(
        &mut self,
        src: &[u8],
        start: usize,
        len: usize,
        mut pending: usize,
        out: &mut Out<'_>,
    ) -> Option<usize> {
        let base = self.next_base(len);
        let window = &*self.window;
        let last = len - TAIL;
        let mut at = 0;
        loop {
            let mut way = 1 << SKIP_SHIFT;
            let from = loop {
                if at >= last {
                    return Some(pending);
                }
                let bytes = load32(window, at as u16);
                let slot = &mut self.table[hash(bytes)];
                // An entry below `base` wraps around to beyond the piece.
                let from = slot.wrapping_sub(base);
                *slot = base.wrapping_add(at as u16);
                // One branch for both, for which of them fails is not predictable.
                let known = usize::from(from) < at;
                if known & (load32(window, from) == bytes) && at - usize::from(from) <= MAX_DISTANCE
                {
                    break usize::from(from);
                }
                let step = way >> SKIP_SHIFT;
                at += step;
                way += step;
            };
            let end = at + MIN_MATCH;
            let end = end + common(&window[..len], end, from + MIN_MATCH);
            out.literals(&src[pending..], start + at - pending)?;
            out.copy(at - from, end - at)?;
            pending = start + end;
            at = end;
        }
    }

    /// The base for the next piece, which is `len` bytes long.
    fn next_base(&mut self, len: usize) -> u16 {
        if let Ok(next) = u16::try_from(usize::from(self.base) + len) {
            return std::mem::replace(&mut self.base, next);
        }
        self.table.fill(0);
        // Behind a full piece there is no room: the next one clears again.
        self.base = u16::try_from(1 + len).unwrap_or(u16::MAX);
        1
    }
}

/// The output, whose end is checked by every method.
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

    /// The low `count` bytes of `bytes`.
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

    /// What is left of a length that its field cannot hold.
    #[cold]
    fn rest(&mut self, mut rest: usize) -> Option<()> {
        while rest > 255 {
            self.few(0, 1)?;
            rest -= 255;
        }
        self.few(rest as u32, 1)
    }

    /// The first `count` bytes of `src` as they are.
    #[inline(always)]
    fn literals(&mut self, src: &[u8], count: usize) -> Option<()> {
        if count == 0 {
            return Some(());
        }
        if self.len == 0 && count <= MAX_FIRST_LITERALS {
            self.few(u32::from(FIRST_LITERALS) + count as u32, 1)?;
        } else if count <= 3 {
            // The match before has room for the number, in its last byte but one.
            self.dst[self.len - 2] |= count as u8;
        } else if count <= 18 {
            self.few(count as u32 - 3, 1)?;
        } else {
            self.few(0, 1)?;
            self.rest(count - 18)?;
        }
        // Most runs are short: they are copied in a fixed size where there is room.
        if count <= 16
            && let Some(wide) = src.first_chunk::<16>()
            && let Some(front) = self.dst[self.len..].first_chunk_mut::<16>()
        {
            *front = *wide;
            self.len += count;
            return Some(());
        }
        self.bytes(&src[..count])
    }

    /// The literals at the end: kept out of the loop over the matches.
    #[cold]
    fn last_literals(&mut self, src: &[u8]) -> Option<()> {
        self.literals(src, src.len())
    }

    /// A match of `len` bytes.
    #[inline(always)]
    fn copy(&mut self, distance: usize, len: usize) -> Option<()> {
        if len <= MAX_SHORT_LEN && distance <= MAX_SHORT_DISTANCE {
            let d = distance as u32 - 1;
            let byte = (len as u32 - 1) << 5 | (d & 7) << 2;
            return self.few(byte | d >> 3 << 8, 2);
        }
        let (kind, d, max_len) = if distance <= MAX_MIDDLE_DISTANCE {
            (32, distance as u32 - 1, 33)
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

#[inline]
fn load32(window: &Window, at: u16) -> u32 {
    let at = usize::from(at);
    let bytes = &window[at..at + 4];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The multiplier is the golden ratio's share of 32 bits.
#[inline]
fn hash(bytes: u32) -> usize {
    (bytes.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
}

/// How many bytes from `at` on are the same as from `from` on.
#[inline]
fn common(bytes: &[u8], at: usize, from: usize) -> usize {
    let (ahead, behind) = (&bytes[at..], &bytes[from..]);
    let mut count = 0;
    while let (Some(a), Some(b)) = (ahead[count..].first_chunk(), behind[count..].first_chunk()) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return count + (differ.trailing_zeros() / 8) as usize;
        }
        count += 8;
    }
    let same = ahead[count..].iter().zip(&behind[count..]);
    count + same.take_while(|(a, b)| a == b).count()
}
