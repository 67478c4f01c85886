//! A growing byte buffer with fields at given offsets.

/// Bytes that are set field by field, little-endian.
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = at as usize;
        if self.0.len() < at + bytes.len() {
            self.0.resize(at + bytes.len(), 0);
        }
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn u64(&mut self, at: u64, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, at: u64, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    pub(super) fn u16(&mut self, at: u64, value: u16) {
        self.put(at, &value.to_le_bytes());
    }
}
