//! Runs of excluded pages: frames and streams of zeros whose bytes depend on
//! nothing but their length, so that a reader can compare them exactly.

/// Bytes of a zstd block at most (RFC 8878, 3.1.1.2.4).
const BLOCK: u64 = 128 << 10;

/// The zstd frame that stands for `len` zeros: blocks of one repeated byte.
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

/// Bytes of the longest bzip2 stream of zeros.
pub const MAX_BZIP2: u64 = 8 << 20;

/// The bytes of the next stream of a run of `left` zeros in the bzip2
/// container: the largest power of two, so that there are only few different.
pub fn bzip2_piece(left: u64) -> u64 {
    match left.checked_ilog2() {
        Some(log) => (1 << log).min(MAX_BZIP2),
        None => 0,
    }
}

/// Bytes of [`zstd_frame`].
pub fn zstd_frame_size(len: u64) -> u64 {
    10 + 4 * len.div_ceil(BLOCK).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_zeros_are_what_zstd_takes_for_zeros() {
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
