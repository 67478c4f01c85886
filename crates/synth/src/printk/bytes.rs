//! A growing byte buffer with fields at given offsets.

use crate::order::ByteOrder;

/// Bytes that are set field by field.
pub(super) struct Bytes {
    pub(super) bytes: Vec<u8>,
    order: ByteOrder,
}

impl Bytes {
    /// Returns `len` zeros.
    pub(super) fn new(len: usize, order: ByteOrder) -> Self {
        Self {
            bytes: vec![0; len],
            order,
        }
    }

    /// The byte of a record's flags and level, which are bit fields of five and three bits: the
    /// first one is in the low bits of a little-endian byte and in the high bits of a big-endian
    /// one. The flags are LOG_NEWLINE.
    pub(super) fn flags_and_level(&self, level: u8) -> u8 {
        match self.order {
            ByteOrder::Little => level << 5 | 2,
            ByteOrder::Big => 2 << 3 | level,
        }
    }

    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = at as usize;
        if self.bytes.len() < at + bytes.len() {
            self.bytes.resize(at + bytes.len(), 0);
        }
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn u64(&mut self, at: u64, value: u64) {
        self.put(at, &self.order.u64(value));
    }

    pub(super) fn u32(&mut self, at: u64, value: u32) {
        self.put(at, &self.order.u32(value));
    }

    pub(super) fn u16(&mut self, at: u64, value: u16) {
        self.put(at, &self.order.u16(value));
    }
}
