//! Kernel memory in which the same bytes appear again and again at all addresses, as page
//! tables can show one page everywhere: the size of a dump does not limit what it shows.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::{KernelError, KernelMemory};

use crate::KernelBytes;
use crate::limits::Budget;

/// A piece of kernel memory, at times repeated; no more of it is read than the budget permits.
pub struct Repeated {
    /// The piece.
    pub piece: KernelBytes,
    /// True if it appears at all addresses.
    pub repeats: bool,
    /// What may be read.
    pub budget: Budget,
}

impl KernelMemory for Repeated {
    fn info(&self) -> &Vmcoreinfo {
        self.piece.info()
    }

    fn endian(&self) -> Endian {
        self.piece.endian()
    }

    fn read(
        &self,
        what: &'static str,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError> {
        self.budget.take(buf.len());
        if !self.repeats {
            return self.piece.read(what, address, buf);
        }
        let bytes = &self.piece.bytes;
        let mut at = address.0.wrapping_sub(self.piece.base) as usize % bytes.len();
        for chunk in buf.chunks_mut(bytes.len()) {
            let (front, back) = chunk.split_at_mut((bytes.len() - at).min(chunk.len()));
            front.copy_from_slice(&bytes[at..at + front.len()]);
            back.copy_from_slice(&bytes[..back.len()]);
            at = (at + chunk.len()) % bytes.len();
        }
        Ok(())
    }

    fn size_up_to(&self, most: u64) -> u64 {
        most.min(self.piece.bytes.len() as u64)
    }
}
