//! Output that is no faster than it may be.

use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use bigiron_helpers::Stop;

use super::Output;

/// Less than this is not worth a sleep; it is made good with the next write.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// A signal is noticed after this time.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Another output behind a limit of bytes a second. A write takes as long as
/// on a disk of that speed: writers come one after the other.
pub struct PacedOutput<'a> {
    inner: &'a dyn Output,
    bytes_per_second: NonZeroU64,
    stop: &'a Stop,
    /// When the disk has done what it was given.
    free_at: Mutex<Instant>,
}

impl<'a> PacedOutput<'a> {
    /// Puts `inner` behind a limit.
    pub fn new(inner: &'a dyn Output, bytes_per_second: NonZeroU64, stop: &'a Stop) -> Self {
        Self {
            inner,
            bytes_per_second,
            stop,
            free_at: Mutex::new(Instant::now()),
        }
    }

    /// Takes its turn at the disk, and says when it ends.
    fn turn(&self, bytes: u64) -> Instant {
        let nanoseconds =
            u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.get());
        let takes = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let mut free_at = self
            .free_at
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        *free_at = (*free_at).max(Instant::now()) + takes;
        *free_at
    }
}

impl Output for PacedOutput<'_> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let ends = self.turn(bytes.len() as u64);
        self.inner.write_at(offset, bytes)?;
        loop {
            let left = ends.saturating_duration_since(Instant::now());
            if left < SHORTEST_SLEEP || self.stop.is_set() {
                return Ok(());
            }
            thread::sleep(left.min(LONGEST_SLEEP));
        }
    }

    fn make_zero(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.make_zero(offset, len)
    }

    fn is_stream(&self) -> bool {
        self.inner.is_stream()
    }

    fn flush_behind(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.flush_behind(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn finish(&self) -> io::Result<()> {
        self.inner.finish()
    }

    fn kept(&self) -> Option<PathBuf> {
        self.inner.kept()
    }

    fn discard(&self) {
        self.inner.discard();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::DiscardedOutput;

    #[test]
    fn writers_take_turns_of_the_length_that_the_limit_gives() {
        let stop = Stop::new();
        let limit = NonZeroU64::new(1 << 20).unwrap_or(NonZeroU64::MIN);
        let paced = PacedOutput::new(&DiscardedOutput, limit, &stop);
        let first = paced.turn(1 << 20);
        assert_eq!(paced.turn(1 << 19) - first, Duration::from_millis(500));
        assert_eq!(
            paced.turn(1 << 22) - first,
            Duration::from_millis(4500),
            "a turn begins where the one before ends"
        );
        // Nobody waits for the disk once the dump is to end.
        stop.set();
        assert!(paced.write_at(0, &[0; 64]).is_ok());
    }
}
