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
}
