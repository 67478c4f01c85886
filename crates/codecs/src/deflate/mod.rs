//! An encoder for zlib streams (RFC 1950 and 1951), tuned for pages.
//!
//! Libraries are tuned for long streams: at 4 KiB they spend much of their time on
//! work that a page does not need. Here all tables fit into the first-level cache,
//! a page is one block, and values are computed where branches would depend on the
//! data. This takes two thirds of libdeflate's time at its level 1, in safe code,
//! for output as small as zlib's at level 1.
//!
//! 1. `matches` parses the input into literals and matches, and counts their symbols.
//! 2. `huffman` builds codes from these counts, and `repeats` their description.
//! 3. `block` computes the exact length of each kind of block, and writes the
//!    shortest, or none if that does not fit.
//!
//! Besides the tests, verified with zlib over all non-zero pages of a real dump.

mod bits;
mod block;
mod huffman;
mod matches;
mod repeats;
mod symbols;

/// Header of the stream: deflate with a window of 32 KiB, fast compression level.
const HEADER: [u8; 2] = [0x78, 0x01];
/// Size of the Adler-32 checksum at the end of the stream.
const CHECKSUM_LEN: usize = 4;

/// Memory of an encoder, in bytes.
pub const ENCODER_BYTES: usize = matches::MEMORY + size_of::<bits::Buffer>() + size_of::<Encoder>();

/// An encoder with its working memory, reused for every page.
pub struct Encoder {
    matches: matches::Matches,
    blocks: Box<block::Blocks>,
    room: Box<bits::Buffer>,
}

impl Encoder {
    /// Creates an encoder.
    #[allow(clippy::new_without_default, reason = "takes memory")]
    pub fn new() -> Self {
        Self {
            matches: matches::Matches::new(),
            blocks: Box::new(block::Blocks::new()),
            room: Box::new([0; size_of::<bits::Buffer>()]),
        }
    }

    /// Encodes `src` as one stream; returns `None` if it does not fit in `dst`.
    pub fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        // End of the space for blocks.
        let end = dst.len().checked_sub(CHECKSUM_LEN)?;
        let mut len = HEADER.len();
        dst.get_mut(..len)?.copy_from_slice(&HEADER);
        let mut held = bits::PendingBits::default();
        let mut rest = src;
        loop {
            let (piece, behind) = rest.split_at(rest.len().min(bits::MAX_INPUT));
            let last = behind.is_empty();
            let most = end.checked_sub(len)?;
            let parsed = self.matches.parse(piece);
            let room = &mut self.room;
            let (mut count, left) = self.blocks.write(piece, parsed, last, most, held, room)?;
            if last && left.count() > 0 {
                // The rest of the last byte is zero.
                count += 1;
            }
            dst.get_mut(len..len + count)?
                .copy_from_slice(&self.room[..count]);
            len += count;
            (held, rest) = (left, behind);
            if last {
                break;
            }
        }
        let checksum = libdeflater::adler32(src).to_be_bytes();
        dst[len..len + CHECKSUM_LEN].copy_from_slice(&checksum);
        Some(len + CHECKSUM_LEN)
    }
}

#[cfg(test)]
mod tests;
