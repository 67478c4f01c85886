//! A bit writer, least significant bit first (RFC 1951, 3.1.1).

/// Maximum input per block; longer input is split, because positions have 16 bits.
pub(super) const MAX_INPUT: usize = 1 << 16;
/// Size of any block stored uncompressed, the longest form, plus slack, since bits are written
/// eight bytes at a time.
const BUFFER_SIZE: usize = MAX_INPUT + 64;

/// Scratch buffer for blocks before they are copied to their destination: eight bytes fit at
/// any offset.
pub(super) type Buffer = [u8; BUFFER_SIZE];

/// Appends bits. The state lives in registers, so it is passed by value.
pub(super) struct Bits<'a> {
    room: &'a mut Buffer,
    /// Number of whole bytes.
    len: usize,
    /// Pending bits; the bits above are zero.
    held: u64,
    /// Number of pending bits: at most 7 after a [`Bits::flush`].
    count: u32,
}

/// The bits of an unfinished byte.
#[derive(Clone, Copy, Default)]
pub(super) struct PendingBits {
    bits: u64,
    count: u32,
}

impl PendingBits {
    /// Number of bits.
    pub(super) fn count(self) -> u32 {
        self.count
    }
}

impl<'a> Bits<'a> {
    /// Starts with `held` in an empty buffer.
    pub(super) fn new(room: &'a mut Buffer, held: PendingBits) -> Self {
        Self {
            room,
            len: 0,
            held: held.bits,
            count: held.count,
        }
    }

    /// Returns the number of whole bytes in the buffer, and the pending bits.
    pub(super) fn finish(mut self) -> (usize, PendingBits) {
        self.flush();
        let held = PendingBits {
            bits: self.held,
            count: self.count,
        };
        (self.len, held)
    }

    /// Appends `count` bits; `bits` is zero above them. Between two flushes there is space for
    /// 56 bits.
    #[inline(always)]
    pub(super) fn put(&mut self, bits: u64, count: u32) {
        self.held |= bits << (self.count & 63);
        self.count += count;
    }

    /// Moves whole bytes to the buffer.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        if let Some(front) = self.room.get_mut(self.len..self.len + 8) {
            front.copy_from_slice(&self.held.to_le_bytes());
        }
        self.len += (self.count >> 3) as usize;
        self.held >>= self.count & 56;
        self.count &= 7;
    }

    /// Pads the last byte with zeros.
    pub(super) fn align(&mut self) {
        self.count = self.count.next_multiple_of(8);
        self.flush();
    }

    /// Appends whole bytes, after [`Bits::align`].
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if let Some(to) = self.room.get_mut(self.len..self.len + bytes.len()) {
            to.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }
}
