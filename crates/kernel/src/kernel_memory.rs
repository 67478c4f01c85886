//! The interface to a kernel's memory by virtual address, with its VMCOREINFO.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use crate::error::KernelError;

/// Access to the memory of a kernel.
pub trait KernelMemory {
    /// VMCOREINFO of the kernel.
    fn info(&self) -> &Vmcoreinfo;

    /// Byte order.
    fn endian(&self) -> Endian;

    /// Fills `buf` with kernel memory; `what` names the data in messages.
    fn read(
        &self,
        what: &'static str,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError>;

    /// Returns the bytes of memory that can be read, counted up to `most`; `most` if unknown.
    /// Page tables may show one page at many addresses, so this bounds the size of anything
    /// that is stored once.
    fn size_up_to(&self, most: u64) -> u64 {
        most
    }
}
