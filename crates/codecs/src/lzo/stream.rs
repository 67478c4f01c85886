//! Limits of the instructions of a stream.

/// Maximum distance of any instruction.
pub(super) const MAX_DISTANCE: usize = 49151;
/// Maximum distance of the two-byte instruction, which copies at most [`MAX_SHORT_LEN`] bytes.
pub(super) const MAX_SHORT_DISTANCE: usize = 2048;
pub(super) const MAX_SHORT_LEN: usize = 8;
/// Maximum distance of the `001L_LLLL` instruction.
pub(super) const MAX_MIDDLE_DISTANCE: usize = 16384;
/// Maximum number of literals that the first byte of the stream can encode, and the value added
/// to it.
pub(super) const MAX_FIRST_LITERALS: usize = 238;
pub(super) const FIRST_LITERALS: u8 = 17;
/// A match at distance [`MAX_MIDDLE_DISTANCE`], encoded as a far one: the end marker.
pub(super) const END: [u8; 3] = [0x11, 0, 0];
