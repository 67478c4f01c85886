//! The linear map, which is at the same place with both kinds of MMU.

use bigiron_format::PhysAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use crate::error::SourceError;
use crate::memory::PhysicalMemory;

/// PAGE_OFFSET (arch/powerpc/include/asm/page.h).
const PAGE_OFFSET: u64 = 0xc000_0000_0000_0000;
/// Offset of the machine's name in struct new_utsname: after four names of 65 bytes.
const MACHINE: u64 = 4 * 65;

/// The physical address of an address in the linear map.
pub(super) fn physical(address: u64) -> u64 {
    address & !PAGE_OFFSET
}

/// Reads an unsigned long in the linear map.
pub(super) fn read_u64(memory: &PhysicalMemory, address: u64) -> Result<u64, SourceError> {
    let mut bytes = [0; 8];
    memory.read(PhysAddr(physical(address)), &mut bytes)?;
    Ok(memory.source().endian().u64(&bytes, 0).unwrap_or(0))
}

/// Determines the byte order by the machine's name in the kernel's own utsname: QEMU writes
/// big-endian headers for all guests.
pub(super) fn byte_order(info: &Vmcoreinfo, memory: &PhysicalMemory) -> Option<Endian> {
    let names = info.symbol("init_uts_ns")?.0;
    let offset = info.offset("uts_namespace.name")? as u64;
    let at = names.wrapping_add(offset).wrapping_add(MACHINE);
    let mut name = [0; 8];
    memory.read(PhysAddr(physical(at)), &mut name).ok()?;
    match &name {
        b"ppc64le\0" => Some(Endian::Little),
        [b'p', b'p', b'c', b'6', b'4', 0, ..] => Some(Endian::Big),
        _ => None,
    }
}
