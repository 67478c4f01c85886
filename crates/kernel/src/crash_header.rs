//! The header of an ELF core that a kernel with a capture kernel has in memory: kexec puts it there
//! for the capture kernel (`elfcorehdr=`), and its notes are those of the kernel that crashed. A
//! dump that was written while the capture kernel ran has the memory of both.

use bigiron_format::PhysAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::{Notes, SIGNATURE};
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use crate::error::KernelError;
use crate::memory::PhysicalMemory;
use crate::source::{IoMethod, MemorySource};
use crate::vmcoreinfo::{Page, each_page};

const EHDR_SIZE: usize = 64;
const PHDR_SIZE: usize = 56;
const ET_CORE: u16 = 4;
const PT_NOTE: u32 = 4;
/// Maximum number of headers in a page that are looked at: those of a machine with many CPUs go on
/// in the pages behind.
const MAX_HEADERS: u16 = 8192;
/// Maximum size of a note: the kernel's VMCOREINFO has a page.
const MAX_NOTE: u64 = 64 << 10;

/// Searches memory for the header, and passes the VMCOREINFO in its notes to `accept`. Returns what
/// it accepts; `None` if there is nothing.
pub fn find<T>(
    source: &dyn MemorySource,
    io: IoMethod,
    mut accept: impl FnMut(Vmcoreinfo) -> Option<T>,
) -> Result<Option<T>, KernelError> {
    let memory = PhysicalMemory::new(source, io, PhysicalMemory::DEFAULT_CACHE_PAGES);
    each_page(source, io, |page| {
        if !page.bytes.starts_with(&SIGNATURE) {
            return None;
        }
        let texts = notes(&memory, &page);
        texts.into_iter().find_map(&mut accept)
    })
}

/// Reads the VMCOREINFO that the header in a page leads to. Places in it are physical addresses.
fn notes(memory: &PhysicalMemory, page: &Page<'_>) -> Vec<Vmcoreinfo> {
    let endian = memory.source().endian();
    let half = |at: usize| endian.u16(page.bytes, at).unwrap_or(0);
    let is_core = endian == Endian::Little && page.bytes[4..6] == [2, 1] && half(16) == ET_CORE;
    let headers = endian.u64(page.bytes, 32);
    if !is_core || headers != Some(EHDR_SIZE as u64) || half(54) != PHDR_SIZE as u16 {
        return Vec::new();
    }
    let count = half(56).min(MAX_HEADERS);
    let mut found = Vec::new();
    for index in 0..u64::from(count) {
        let mut header = [0; PHDR_SIZE];
        let at = page.address.0 + EHDR_SIZE as u64 + index * PHDR_SIZE as u64;
        if memory.read(PhysAddr(at), &mut header).is_err() {
            break;
        }
        let field = |at: usize| endian.u64(&header, at).unwrap_or(0);
        let (offset, physical, size) = (field(8), field(24), field(32));
        // In a file, the place of a note is not its address.
        let is_note = endian.u32(&header, 0) == Some(PT_NOTE) && offset == physical;
        if !is_note || size > MAX_NOTE {
            continue;
        }
        let mut bytes = vec![0; size as usize];
        if memory.read(PhysAddr(physical), &mut bytes).is_err() {
            continue;
        }
        if let Ok(Some(note)) = Notes::new(&bytes, endian, physical).vmcoreinfo() {
            found.extend(Vmcoreinfo::parse(note.desc, physical));
        }
    }
    found
}
