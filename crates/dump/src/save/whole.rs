//! Borrowing `ReadAt` adapter.

use bigiron_format::ReadAt;

/// Borrows the bytes of another owner.
pub struct Whole<'a>(pub &'a dyn ReadAt);

impl ReadAt for Whole<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.0.size()
    }

    fn next_data(&self, offset: u64) -> u64 {
        self.0.next_data(offset)
    }

    fn next_hole(&self, offset: u64) -> u64 {
        self.0.next_hole(offset)
    }
}
