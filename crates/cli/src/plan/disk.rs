//! The write speed of a target, measured by writing for a moment.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use bigiron_dump::{FileOutput, Output};
use bigiron_kernel::AlignedBuffer;

/// Bytes of one write, as those of a dump.
const BLOCK: usize = 1 << 20;
/// Bytes at most.
const MAX_BYTES: u64 = 256 << 20;
/// Time at most, but for a block that is being written.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Writes a file in `directory` as a dump in the capture kernel is written, past the page cache
/// where that is possible; removes it, and returns the bytes per second with which they reached
/// the disk.
///
/// # Errors
/// The file cannot be written.
pub fn measure(directory: &Path) -> anyhow::Result<f64> {
    let path = directory.join(format!(".bigiron-plan.{}", std::process::id()));
    let file = FileOutput::create(&path, false)?.past_page_cache();
    let speed = write(&file);
    file.discard();
    speed.with_context(|| format!("{}: cannot measure the write speed", directory.display()))
}

fn write(file: &FileOutput) -> io::Result<f64> {
    let block = noise();
    let begin = Instant::now();
    let mut written = 0;
    while written < MAX_BYTES && begin.elapsed() < MAX_TIME {
        file.write_at(written, &block)?;
        written += block.len() as u64;
    }
    file.sync()?;
    Ok(written as f64 / begin.elapsed().as_secs_f64().max(1e-6))
}

/// Bytes that no disk or file system compresses.
fn noise() -> AlignedBuffer {
    let mut block = AlignedBuffer::new(BLOCK);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for word in block.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    block
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::fs;

    use super::*;

    #[test]
    fn nothing_remains_of_the_measurement() {
        let directory = tempfile::tempdir().unwrap();
        assert!(measure(directory.path()).unwrap() > 0.0);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let missing = measure(&directory.path().join("missing")).unwrap_err();
        assert!(format!("{missing:#}").contains("missing"), "{missing:#}");
    }
}
