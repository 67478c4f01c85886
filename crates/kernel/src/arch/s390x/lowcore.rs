//! VMCOREINFO by the pointers in the prefix area, for dumps without its note: those of QEMU, of
//! z/VM, and stand-alone dumps.

use bigiron_format::PhysAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::note::Notes;
use bigiron_format::vmcoreinfo::{FIRST_KEY, MAX_SIZE};

use crate::error::SourceError;
use crate::memory::PhysicalMemory;

/// lowcore.vmcore_info (arch/s390/include/asm/lowcore.h): the address of an ELF note.
const NOTE_POINTER: u64 = 0xe0c;
/// lowcore.os_info: the address of struct os_info.
const OS_INFO_POINTER: u64 = 0xe18;
/// OS_INFO_MAGIC (arch/s390/include/asm/os_info.h): "OSINFOSZ".
const OS_INFO_MAGIC: u64 = 0x4f53_494e_464f_535a;
/// Offset of entry OS_INFO_VMCOREINFO, the first one: address, size, checksum.
const OS_INFO_ENTRY: usize = 32;

/// Follows the pointers; `None` if neither leads to VMCOREINFO.
pub(super) fn find_vmcoreinfo(memory: &PhysicalMemory) -> Result<Option<Vec<u8>>, SourceError> {
    let pointer = read(memory, NOTE_POINTER, 8)?;
    let address = Endian::Big.u64(&pointer, 0).unwrap_or(0);
    // With bit 0 set it is an offset that the boot loader left (since 5.1).
    if address != 0
        && address & 1 == 0
        && let Some(text) = in_note(memory, address)?
    {
        return Ok(Some(text));
    }
    let pointer = read(memory, OS_INFO_POINTER, 8)?;
    let info = Endian::Big.u64(&pointer, 0).unwrap_or(0);
    let info = match info {
        0 => return Ok(None),
        _ => read(memory, info, OS_INFO_ENTRY + 20)?,
    };
    let field = |offset| Endian::Big.u64(&info, offset).unwrap_or(0);
    let (address, size) = (field(OS_INFO_ENTRY), field(OS_INFO_ENTRY + 8));
    if field(0) != OS_INFO_MAGIC || address == 0 || size > MAX_SIZE as u64 {
        return Ok(None);
    }
    Ok(text_of(&read(memory, address, size as usize)?))
}

/// Returns the text of the ELF note at `address`.
fn in_note(memory: &PhysicalMemory, address: u64) -> Result<Option<Vec<u8>>, SourceError> {
    let header = read(memory, address, 12)?;
    let field = |offset| Endian::Big.u32(&header, offset).unwrap_or(0) as usize;
    let (name, text) = (field(0), field(4));
    if name > 16 || text > MAX_SIZE {
        return Ok(None);
    }
    let note = read(memory, address, 12 + name.next_multiple_of(4) + text)?;
    let found = Notes::new(&note, Endian::Big, address).vmcoreinfo();
    Ok(found.ok().flatten().and_then(|note| text_of(note.desc)))
}

fn text_of(bytes: &[u8]) -> Option<Vec<u8>> {
    bytes.starts_with(FIRST_KEY).then(|| bytes.to_vec())
}

/// Reads memory; empty if the dump has none there.
fn read(memory: &PhysicalMemory, address: u64, len: usize) -> Result<Vec<u8>, SourceError> {
    let mut bytes = vec![0; len];
    match memory.read(PhysAddr(address), &mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) if error.is_one_page() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
