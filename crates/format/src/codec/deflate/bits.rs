//! Bits packed into bytes, the first in the lowest place (RFC 1951, 3.1.1).

/// Room for any piece as stored blocks, which is the longest it is ever written
/// as, and some more, since bits are written eight bytes at a time.
const ROOM: usize = super::MAX_PIECE + 64;

/// Where blocks are written to before they are copied to their destination:
/// here eight bytes fit at any place.
pub(super) type Room = [u8; ROOM];

/// Appends bits. A value that lives in registers, so it is passed by value.
pub(super) struct Bits<'a> {
    room: &'a mut Room,
    /// How many whole bytes there are.
    len: usize,
    /// Bits behind them, and above those zeros.
    held: u64,
    /// How many those are: at most 7 after a [`Bits::flush`].
    count: u32,
}

/// The bits of an unfinished byte.
#[derive(Clone, Copy, Default)]
pub(super) struct Held {
    bits: u64,
    count: u32,
}

impl Held {
    /// How many bits.
    pub(super) fn count(self) -> u32 {
        self.count
    }
}

impl<'a> Bits<'a> {
    /// Begins with `held` in an empty room.
    pub(super) fn new(room: &'a mut Room, held: Held) -> Self {
        Self {
            room,
            len: 0,
            held: held.bits,
            count: held.count,
        }
    }

    /// How many whole bytes are in the room, and what is left.
    pub(super) fn finish(mut self) -> (usize, Held) {
        self.flush();
        let held = Held {
            bits: self.held,
            count: self.count,
        };
        (self.len, held)
    }

    /// Appends `count` bits, above which `bits` is zero. Between two flushes
    /// there is room for 56 bits.
    #[inline(always)]
    pub(super) fn put(&mut self, bits: u64, count: u32) {
        self.held |= bits << (self.count & 63);
        self.count += count;
    }

    /// Moves whole bytes to the room.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        if let Some(front) = self.room.get_mut(self.len..self.len + 8) {
            front.copy_from_slice(&self.held.to_le_bytes());
        }
        self.len += (self.count >> 3) as usize;
        self.held >>= self.count & 56;
        self.count &= 7;
    }

    /// Fills the last byte with zeros.
    pub(super) fn align(&mut self) {
        self.count = self.count.next_multiple_of(8);
        self.flush();
    }

    /// Appends whole bytes, behind an [`Bits::align`].
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if let Some(to) = self.room.get_mut(self.len..self.len + bytes.len()) {
            to.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }
}
