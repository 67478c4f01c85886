//! Output that may not grow beyond a size.

use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;

use super::Output;

/// Another output that ends at a size, as a full disk would.
pub struct LimitedOutput<'a> {
    inner: &'a dyn Output,
    limit: NonZeroU64,
}

impl<'a> LimitedOutput<'a> {
    /// Lets nothing be written to `inner` behind `limit` bytes.
    pub fn new(inner: &'a dyn Output, limit: NonZeroU64) -> Self {
        Self { inner, limit }
    }
}

impl Output for LimitedOutput<'_> {
    /// Beyond the limit an error of the kind that `ulimit -f` gives.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let limit = self.limit.get();
        if offset.saturating_add(bytes.len() as u64) > limit {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("the size limit of {limit} bytes is reached"),
            ));
        }
        self.inner.write_at(offset, bytes)
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
