//! Reads a stream from its start to its end.

use crate::bytes::ReadAt;
use crate::error::FormatError;

/// Bytes read at once.
const WINDOW: u64 = 1 << 20;

/// A position in a file.
pub(super) struct Cursor<'f> {
    file: &'f dyn ReadAt,
    at: u64,
    window: Vec<u8>,
    /// Offset of the window.
    start: u64,
}

impl<'f> Cursor<'f> {
    pub(super) fn new(file: &'f dyn ReadAt, at: u64) -> Self {
        Self {
            file,
            at,
            window: Vec::new(),
            start: 0,
        }
    }

    /// Offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.at
    }

    /// Reads a big-endian number of `LEN` bytes.
    pub(super) fn bytes<const LEN: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; LEN], FormatError> {
        let mut bytes = [0; LEN];
        self.fill(what, &mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, FormatError> {
        Ok(u8::from_be_bytes(self.bytes(what)?))
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, FormatError> {
        Ok(u16::from_be_bytes(self.bytes(what)?))
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, FormatError> {
        Ok(u32::from_be_bytes(self.bytes(what)?))
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, FormatError> {
        Ok(u64::from_be_bytes(self.bytes(what)?))
    }

    /// Reads a name after its length.
    pub(super) fn name(&mut self, what: &'static str) -> Result<String, FormatError> {
        let at = self.at;
        let mut bytes = vec![0; self.u8(what)?.into()];
        self.fill(what, &mut bytes)?;
        match std::str::from_utf8(&bytes) {
            Ok(name) if !name.is_empty() && !name.contains(char::is_control) => Ok(name.to_owned()),
            _ => {
                let found = String::from_utf8_lossy(&bytes).into_owned();
                Err(FormatError::unexpected(
                    what,
                    at,
                    "a name",
                    format!("{found:?}"),
                ))
            }
        }
    }

    /// The next byte, if there is one.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let at = self.at;
        let byte = self.u8("the next section").ok();
        self.at = at;
        byte
    }

    /// Skips bytes that the file has.
    pub(super) fn skip(&mut self, what: &'static str, len: u64) -> Result<(), FormatError> {
        let end = self.at.saturating_add(len);
        if end > self.file.size() {
            return Err(FormatError::Truncated {
                what,
                offset: self.at,
                needed: len,
                size: self.file.size(),
            });
        }
        self.at = end;
        Ok(())
    }

    fn fill(&mut self, what: &'static str, out: &mut [u8]) -> Result<(), FormatError> {
        let len = out.len() as u64;
        let is_inside =
            self.at >= self.start && self.at + len <= self.start + self.window.len() as u64;
        if !is_inside {
            let left = self.file.size().saturating_sub(self.at);
            if left < len {
                return Err(FormatError::Truncated {
                    what,
                    offset: self.at,
                    needed: len,
                    size: self.file.size(),
                });
            }
            self.window.clear();
            self.start = self.at;
            let mut window = vec![0; left.min(WINDOW.max(len)) as usize];
            self.file.read_exact_at(what, self.at, &mut window)?;
            self.window = window;
        }
        let inside = (self.at - self.start) as usize;
        out.copy_from_slice(&self.window[inside..inside + out.len()]);
        self.at += len;
        Ok(())
    }
}
