//! Zeros in the place of what was there before.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};

/// Bytes that are written at once.
const PIECE: usize = 1 << 20;
/// Bytes that the kernel is asked to make zero at once, so that a signal does
/// not wait for all of a large disk.
const RANGE: u64 = 1 << 30;

/// Makes `len` bytes at `offset` zero. Many devices need not be sent the zeros:
/// block devices take the request for them since Linux 4.9 (25f4c41415e5).
pub fn make_zero(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let (mut at, end) = (offset, offset + len);
    let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    while at < end {
        let len = RANGE.min(end - at);
        match fallocate(file, flags, at, len) {
            Ok(()) => {}
            Err(rustix::io::Errno::INTR) => continue,
            // Not this device, or not at an offset like this.
            Err(_) => write_zeros(file, at, len)?,
        }
        at += len;
    }
    Ok(())
}

fn write_zeros(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let zeros = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE))];
    let mut done = 0;
    while done < len {
        let count = (zeros.len() as u64).min(len - done);
        file.write_all_at(&zeros[..count as usize], offset + done)?;
        done += count;
    }
    Ok(())
}
