//! A piece of a kernel's memory, and nothing around it.

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::{PhysAddr, VirtAddr};
use bigiron_kernel::KernelError;
use bigiron_kernel::KernelMemory;
use bigiron_kernel::arch::Leaf;
use bigiron_kernel::erase::EraseMemory;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A piece of a kernel's memory.
pub struct KernelBytes {
    /// What the kernel says of itself.
    pub info: Vmcoreinfo,
    /// Its byte order.
    pub endian: Endian,
    /// The virtual address where the piece begins.
    pub base: u64,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// Where a virtual address in it is in physical memory; pages stay whole.
    pub physical: fn(u64) -> u64,
}

impl KernelMemory for KernelBytes {
    fn info(&self) -> &Vmcoreinfo {
        &self.info
    }

    fn endian(&self) -> Endian {
        self.endian
    }

    fn read(
        &self,
        what: &'static str,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError> {
        let bytes = || {
            let start = usize::try_from(address.0.checked_sub(self.base)?).ok()?;
            self.bytes.get(start..start.checked_add(buf.len())?)
        };
        let bytes = bytes().ok_or(KernelError::NotMapped { what, address })?;
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn size_up_to(&self, most: u64) -> u64 {
        most.min(self.bytes.len() as u64)
    }
}

impl EraseMemory for KernelBytes {
    fn translate(&self, address: VirtAddr) -> Result<Option<Leaf>, KernelError> {
        let end = self.base + self.bytes.len() as u64;
        let is_inside = (self.base..end).contains(&address.0);
        Ok(is_inside.then(|| Leaf {
            physical: PhysAddr((self.physical)(address.0)),
            len: (PAGE - address.0 % PAGE).min(end - address.0),
        }))
    }
}
