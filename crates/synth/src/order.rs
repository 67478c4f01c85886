//! Byte order of words in memory and in headers.

/// The order of a word's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// Returns the bytes of a word of two bytes.
    pub fn u16(self, value: u16) -> [u8; 2] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    /// Returns the bytes of a word of four bytes.
    pub fn u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    /// Returns the bytes of a word of eight bytes.
    pub fn u64(self, value: u64) -> [u8; 8] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    pub(crate) fn read_u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    pub(crate) fn put16(self, bytes: &mut [u8], at: usize, value: u16) {
        bytes[at..at + 2].copy_from_slice(&self.u16(value));
    }

    pub(crate) fn put32(self, bytes: &mut [u8], at: usize, value: u32) {
        bytes[at..at + 4].copy_from_slice(&self.u32(value));
    }

    pub(crate) fn put64(self, bytes: &mut [u8], at: usize, value: u64) {
        bytes[at..at + 8].copy_from_slice(&self.u64(value));
    }
}
