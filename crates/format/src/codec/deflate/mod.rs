//! An encoder of zlib streams (RFC 1950 and 1951) for pages.
//!
//! Libraries are made for long streams: at 4 KiB they spend much of their time
//! on what a page does not need. Here all is small enough for the first cache,
//! a page is one block, and what branches would depend on the data is computed
//! instead. That takes two thirds of libdeflate's time at its level 1, in safe
//! code, for as many bytes as zlib writes at level 1.
//!
//! 1. `matches` cuts a piece into literals and matches, and counts their symbols.
//! 2. `huffman` makes codes of these counts, and `repeats` what describes them.
//! 3. `block` compares exactly how long each kind of block would be, and writes
//!    the shortest; or none if that does not fit.
//!
//! Checked, beside the tests, with zlib over all non-zero pages of a real dump.

mod bits;
mod block;
mod huffman;
mod matches;
mod repeats;
mod symbols;

/// Longer input is encoded piece by piece, each in a block of its own, because
/// positions have 16 bits.
const MAX_PIECE: usize = 1 << 16;

/// The stream's header: deflate with a window of 32 KiB, by a fast encoder.
const HEADER: [u8; 2] = [0x78, 0x01];
/// The Adler-32 checksum that ends the stream.
const CHECKSUM_LEN: usize = 4;

/// What a compressor takes: its memory.
pub(super) const CONTEXT_BYTES: usize =
    matches::MEMORY + size_of::<bits::Room>() + size_of::<Encoder>();

/// An encoder with its memory, used again for every page.
pub(super) struct Encoder {
    matches: matches::Matches,
    blocks: Box<block::Blocks>,
    room: Box<bits::Room>,
}

impl Encoder {
    pub(super) fn new() -> Self {
        Self {
            matches: matches::Matches::new(),
            blocks: Box::new(block::Blocks::new()),
            room: Box::new([0; size_of::<bits::Room>()]),
        }
    }

    /// Encodes `src` as one stream; `None` if it does not fit in `dst`.
    pub(super) fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        // Up to where there can be blocks.
        let end = dst.len().checked_sub(CHECKSUM_LEN)?;
        let mut len = HEADER.len();
        dst.get_mut(..len)?.copy_from_slice(&HEADER);
        let mut held = bits::Held::default();
        let mut rest = src;
        loop {
            let (piece, behind) = rest.split_at(rest.len().min(MAX_PIECE));
            let last = behind.is_empty();
            let most = end.checked_sub(len)?;
            let parsed = self.matches.parse(piece);
            let room = &mut self.room;
            let (mut count, left) = self.blocks.write(piece, parsed, last, most, held, room)?;
            if last && left.count() > 0 {
                // The rest of the last byte is zeros.
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
