//! Zeroing of ranges of a device.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};

/// Bytes of one write of zeros.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes of one fallocate call, so that a signal does not have to wait for a whole large disk.
const FALLOCATE_BYTES: u64 = 1 << 30;

/// Makes `len` bytes at `offset` zero. Many devices do so without receiving the zeros: block
/// devices support fallocate since Linux 4.9 (25f4c41415e5).
pub fn make_zero(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let (mut at, end) = (offset, offset + len);
    let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    while at < end {
        let len = FALLOCATE_BYTES.min(end - at);
        match fallocate(file, flags, at, len) {
            Ok(()) => {}
            Err(rustix::io::Errno::INTR) => continue,
            // Not supported by this device, or not at this offset.
            Err(_) => write_zeros(file, at, len)?,
        }
        at += len;
    }
    Ok(())
}

fn write_zeros(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let zeros = vec![0; WRITE_BYTES.min(usize::try_from(len).unwrap_or(WRITE_BYTES))];
    let mut done = 0;
    while done < len {
        let count = (zeros.len() as u64).min(len - done);
        file.write_all_at(&zeros[..count as usize], offset + done)?;
        done += count;
    }
    Ok(())
}
