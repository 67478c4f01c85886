//! Contents of files.

use std::sync::OnceLock;

/// The reason why a file cannot be read. Readers of the file see EIO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentError(pub String);

impl<E: std::error::Error> From<E> for ContentError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// The bytes of a file. Threads read concurrently.
pub trait Content: Send + Sync {
    /// Size in bytes, which must not change.
    fn size(&self) -> Result<u64, ContentError>;

    /// Fills `buf` from `offset` and returns the number of bytes: fewer only at the end of the
    /// file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, ContentError>;

    /// Returns true if the contents may change between reads, so that the kernel must not cache
    /// them.
    fn changes(&self) -> bool {
        false
    }
}

type Make = dyn Fn() -> Result<Vec<u8>, ContentError> + Send + Sync;

/// A file that is generated as a whole when it is first opened.
pub struct Text {
    make: Box<Make>,
    made: OnceLock<Result<Vec<u8>, ContentError>>,
}

impl Text {
    /// Creates a file whose contents `make` generates, once.
    pub fn new(make: impl Fn() -> Result<Vec<u8>, ContentError> + Send + Sync + 'static) -> Self {
        Self {
            make: Box::new(make),
            made: OnceLock::new(),
        }
    }

    fn bytes(&self) -> Result<&[u8], ContentError> {
        let made = self.made.get_or_init(|| (self.make)());
        made.as_deref().map_err(Clone::clone)
    }
}

impl Content for Text {
    fn size(&self) -> Result<u64, ContentError> {
        Ok(self.bytes()?.len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, ContentError> {
        let bytes = self.bytes()?;
        let rest = usize::try_from(offset).map_or(&[][..], |at| bytes.get(at..).unwrap_or(&[]));
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn text_is_generated_once_and_read_at_any_offset() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let text = Text::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(b"hello".to_vec())
        });
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        assert_eq!(text.size(), Ok(5));
        let mut buf = [0; 4];
        assert_eq!(text.read_at(3, &mut buf), Ok(2));
        assert_eq!(&buf[..2], b"lo");
        for offset in [5, 6, u64::MAX] {
            assert_eq!(text.read_at(offset, &mut buf), Ok(0));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn failed_generation_reports_the_reason_each_time() {
        let text = Text::new(|| Err(ContentError("no log".into())));
        let why = Err(ContentError("no log".into()));
        assert_eq!(
            (text.size(), text.read_at(0, &mut [0])),
            (why.clone(), why.map(|_: u64| 0))
        );
    }
}
