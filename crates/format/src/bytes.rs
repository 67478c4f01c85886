//! Bounds-checked access: bytes at an offset of a file, fields at an offset of a buffer.

use std::io;

use crate::error::FormatError;

/// Bytes that several threads can read at any offset.
pub trait ReadAt: Send + Sync {
    /// Reads into `buf` from `offset` and returns the number of bytes; fewer than requested
    /// only at the end.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Size in bytes.
    fn size(&self) -> u64;

    /// Returns true if reading costs a request to another machine: what is read only to be compared
    /// is then left out.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns the first offset at or after `offset` that may hold data: a sparse file knows
    /// where its holes end.
    fn next_data(&self, offset: u64) -> u64 {
        offset
    }

    /// Returns the first offset at or after `offset` where a sparse file has a hole; the size
    /// if there is none, or if that is unknown.
    fn next_hole(&self, offset: u64) -> u64 {
        self.size().max(offset)
    }

    /// Fills `buf` from `offset`; an error names what is missing.
    fn read_exact_at(
        &self,
        what: &'static str,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), FormatError> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset.saturating_add(done as u64);
            match self.read_at(at, &mut buf[done..]) {
                Ok(0) => {
                    return Err(FormatError::Truncated {
                        what,
                        offset,
                        needed: buf.len() as u64,
                        size: self.size(),
                    });
                }
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => {
                    return Err(FormatError::Io {
                        what,
                        offset: at,
                        cause,
                    });
                }
            }
        }
        Ok(())
    }

    /// Reads `len` bytes at `offset`; nothing is allocated for bytes that the file does not
    /// have, nor beyond the memory limit.
    fn read_vec_at(
        &self,
        what: &'static str,
        offset: u64,
        len: u64,
    ) -> Result<Vec<u8>, FormatError> {
        let truncated = || FormatError::Truncated {
            what,
            offset,
            needed: len,
            size: self.size(),
        };
        let end = offset.checked_add(len).ok_or_else(truncated)?;
        if end > self.size() {
            return Err(truncated());
        }
        FormatError::check_memory(what, offset, len)?;
        let mut buf = vec![0; usize::try_from(len).map_err(|_| truncated())?];
        self.read_exact_at(what, offset, &mut buf)?;
        Ok(buf)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let tail = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..))
            .unwrap_or(&[]);
        let count = tail.len().min(buf.len());
        buf[..count].copy_from_slice(&tail[..count]);
        Ok(count)
    }

    fn size(&self) -> u64 {
        self.len() as u64
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.as_slice().read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.len() as u64
    }
}

impl<R: ReadAt + ?Sized> ReadAt for Box<R> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.as_ref().read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.as_ref().size()
    }

    fn is_remote(&self) -> bool {
        (**self).is_remote()
    }

    fn next_data(&self, offset: u64) -> u64 {
        self.as_ref().next_data(offset)
    }

    fn next_hole(&self, offset: u64) -> u64 {
        self.as_ref().next_hole(offset)
    }
}

/// The byte order of the dumped machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

macro_rules! field {
    ($name:ident, $put:ident, $type:ty) => {
        /// Returns the field at `offset` of `buf`; `None` beyond its end.
        #[inline]
        pub fn $name(self, buf: &[u8], offset: usize) -> Option<$type> {
            let bytes = buf.get(offset..)?.first_chunk()?;
            Some(match self {
                Endian::Little => <$type>::from_le_bytes(*bytes),
                Endian::Big => <$type>::from_be_bytes(*bytes),
            })
        }

        /// Sets the field at `offset` of `buf`, which must be large enough.
        #[inline]
        pub fn $put(self, buf: &mut [u8], offset: usize, value: $type) {
            let bytes = match self {
                Endian::Little => value.to_le_bytes(),
                Endian::Big => value.to_be_bytes(),
            };
            buf[offset..offset + size_of::<$type>()].copy_from_slice(&bytes);
        }
    };
}

impl Endian {
    field!(u16, put_u16, u16);
    field!(u32, put_u32, u32);
    field!(i32, put_i32, i32);
    field!(u64, put_u64, u64);
    field!(i64, put_i64, i64);
}
