//! Runs of excluded pages: frames and streams of zeros whose bytes depend only on their length,
//! so that a reader can compare them exactly.

/// Maximum size of a zstd block (RFC 8878, 3.1.1.2.4).
const BLOCK: u64 = 128 << 10;

/// Encodes the zstd frame of `len` zeros: blocks of one repeated byte.
pub fn zstd_frame(len: u32) -> Vec<u8> {
    let blocks = u64::from(len).div_ceil(BLOCK).max(1);
    let mut out = Vec::with_capacity(10 + 4 * blocks as usize);
    out.extend_from_slice(&0xfd2f_b528_u32.to_le_bytes());
    // Frame_Content_Size of four bytes, no checksum; a window of 128 KiB.
    out.extend_from_slice(&[0x80, 0x38]);
    out.extend_from_slice(&len.to_le_bytes());
    let mut left = u64::from(len);
    for block in 0..blocks {
        let size = left.min(BLOCK);
        left -= size;
        let last = u64::from(block + 1 == blocks);
        // Last_Block, Block_Type 1 (RLE), Block_Size.
        let head = (last | 1 << 1 | size << 3) as u32;
        out.extend_from_slice(&head.to_le_bytes()[..3]);
        out.push(0);
    }
    out
}

/// Maximum size of a bzip2 stream of zeros.
pub const MAX_BZIP2: u64 = 8 << 20;

/// Size of the next stream for a run of `left` zeros in the bzip2 container: the largest power
/// of two, so that only few streams differ.
pub fn bzip2_stream_len(left: u64) -> u64 {
    match left.checked_ilog2() {
        Some(log) => (1 << log).min(MAX_BZIP2),
        None => 0,
    }
}

/// Size of [`zstd_frame`].
pub fn zstd_frame_size(len: u64) -> u64 {
    10 + 4 * len.div_ceil(BLOCK).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_zeros_decompress_to_zeros() {
        for len in [
            1,
            4096,
            (128 << 10) - 1,
            128 << 10,
            (128 << 10) + 1,
            5 << 20,
        ] {
            let frame = zstd_frame(len);
            assert_eq!(frame.len() as u64, zstd_frame_size(len.into()));
            let mut out = vec![1; len as usize + 1];
            let count = zstd_safe::decompress(&mut out[..], &frame).unwrap();
            assert_eq!(count, len as usize);
            assert!(out[..count].iter().all(|byte| *byte == 0), "{len}");
        }
    }
}
