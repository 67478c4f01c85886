//! What is in a file.

use std::sync::OnceLock;

/// Why a file cannot be read: a sentence for people. Readers of the file see
/// EIO, since the system has no room for more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentError(pub String);

impl<E: std::error::Error> From<E> for ContentError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// The bytes of a file. Threads read at the same time.
pub trait Content: Send + Sync {
    /// How many there are. It stays the same.
    fn size(&self) -> Result<u64, ContentError>;

    /// Fills `buf` from `offset` on as far as the file goes, and says how far: less
    /// than all only at the file's end.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, ContentError>;

    /// Whether it may be other bytes when it is read again, so that the kernel must
    /// not keep what it has read.
    fn changes(&self) -> bool {
        false
    }
}

type Make = dyn Fn() -> Result<Vec<u8>, ContentError> + Send + Sync;

/// A file that is made as a whole, when it is looked at first.
pub struct Text {
    make: Box<Make>,
    made: OnceLock<Result<Vec<u8>, ContentError>>,
}

impl Text {
    /// A file with what `make` gives. It is asked once.
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
    fn a_text_is_made_once_and_read_from_anywhere() {
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
    fn what_cannot_be_made_says_why_each_time() {
        let text = Text::new(|| Err(ContentError("no log".into())));
        let why = Err(ContentError("no log".into()));
        assert_eq!(
            (text.size(), text.read_at(0, &mut [0])),
            (why.clone(), why.map(|_: u64| 0))
        );
    }
}
