//! Finds VMCOREINFO: given by the user, in a note, or in memory.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::vmcoreinfo::{FIRST_KEY, Vmcoreinfo};
use bigiron_format::{FormatError, PageFrame, PhysAddr};

use crate::arch;
use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;
use crate::source::{IoMethod, MemorySource, SECTION_FRAMES};

/// Bytes searched in one read.
const BYTES_AT_ONCE: usize = 1 << 20;
/// The smallest page size.
const SMALLEST_PAGE: usize = 4096;
/// Maximum number of old texts and copies that are tried.
const MAX_CANDIDATES: usize = 64;

/// Reads VMCOREINFO from the note.
pub fn from_note(source: &dyn MemorySource) -> Result<Option<Vmcoreinfo>, FormatError> {
    source
        .vmcoreinfo_note()
        .map(|note| Vmcoreinfo::parse(note.text, note.offset))
        .transpose()
}

/// Describes why VMCOREINFO of a note cannot be used.
pub fn note_damage(source: &dyn MemorySource, error: &KernelError) -> String {
    let place = source.vmcoreinfo_note().map(|note| note.offset);
    let place = place.map_or_else(String::new, |offset| format!(" at offset {offset:#x}"));
    let why = match error {
        // The message names the file already.
        KernelError::Source(SourceError::Format { cause, .. }) => cause.to_string(),
        other => other.to_string(),
    };
    format!("VMCOREINFO in the note{place} is damaged, so its copy in memory is used: {why}")
}

/// Follows the architecture's own pointer to VMCOREINFO, if it has one.
pub fn from_pointer(
    source: &dyn MemorySource,
    io: IoMethod,
) -> Result<Option<Vmcoreinfo>, KernelError> {
    let Some(find) = arch::find(source.machine())?.vmcoreinfo else {
        return Ok(None);
    };
    let memory = PhysicalMemory::new(source, io, 0);
    let text = find(&memory)?;
    // What the pointer leads to may be anything.
    let info = text.and_then(|text| Vmcoreinfo::parse(&text, 0).ok());
    Ok(info.filter(is_plausible))
}

/// Returns false if a text that starts like VMCOREINFO is not one: that of a header file in the
/// page cache, for instance.
pub fn is_plausible(info: &Vmcoreinfo) -> bool {
    info.page_shift().is_some() && info.symbol("swapper_pg_dir").is_some()
}

/// Searches memory for VMCOREINFO: a page that starts with its first key. The kernel writes it
/// into a page of its own (vmcoreinfo_data, kernel/vmcore_info.c). Other pages may start alike,
/// so `accept` decides. The kernel's pages may be larger than those that are looked at.
pub fn from_memory<T>(
    source: &dyn MemorySource,
    io: IoMethod,
    mut accept: impl FnMut(Vmcoreinfo) -> Option<T>,
) -> Result<T, KernelError> {
    let mut candidates = 0;
    let found = each_page(source, io, |page| {
        if !page.bytes.starts_with(FIRST_KEY) {
            return None;
        }
        candidates += 1;
        let accepted = Vmcoreinfo::parse(page.bytes, 0).ok().and_then(&mut accept);
        match accepted {
            Some(accepted) => Some(Some(accepted)),
            None => (candidates == MAX_CANDIDATES).then_some(None),
        }
    })?;
    found.flatten().ok_or(KernelError::NoVmcoreinfo)
}

/// A page of the smallest size.
pub struct Page<'p> {
    /// Its physical address.
    pub address: PhysAddr,
    /// Its contents.
    pub bytes: &'p [u8],
}

/// Passes each page of memory to `find`, until it finds something.
pub fn each_page<T>(
    source: &dyn MemorySource,
    io: IoMethod,
    mut find: impl FnMut(Page<'_>) -> Option<T>,
) -> Result<Option<T>, KernelError> {
    let page_size: usize = 1 << source.page_shift();
    let at_once = (BYTES_AT_ONCE / page_size).max(1);
    let mut reader = source.reader(io);
    let mut bits = Bitmap::new(SECTION_FRAMES as usize);
    for first in source.sections() {
        source.present(first, &mut bits)?;
        let mut from = 0;
        while let Some((start, len)) = bits.next_run(from, bits.len(), at_once) {
            let frame = first.0 + start as u64;
            let pages = match reader.pages(PageFrame(frame), len) {
                Ok(pages) => pages,
                Err(error) if error.is_one_page() => {
                    from = start + 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            from = start + pages.len() / page_size;
            for (index, bytes) in pages.chunks_exact(SMALLEST_PAGE).enumerate() {
                let inside = (index * SMALLEST_PAGE) as u64;
                let address = PhysAddr((frame << source.page_shift()) + inside);
                let found = find(Page { address, bytes });
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
    }
    Ok(None)
}

/// Adds the name of the source to a parse error.
pub fn name_error(path: &std::path::Path, cause: FormatError) -> KernelError {
    KernelError::Source(SourceError::Format {
        path: path.to_owned(),
        cause,
    })
}
