//! Finds VMCOREINFO: given by the user, in a note, or in memory.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::vmcoreinfo::{FIRST_KEY, Vmcoreinfo};
use bigiron_format::{FormatError, PageFrame};

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
    let page_size: usize = 1 << source.page_shift();
    let at_once = (BYTES_AT_ONCE / page_size).max(1);
    let mut reader = source.reader(io);
    let mut bits = Bitmap::new(SECTION_FRAMES as usize);
    let mut candidates = 0;
    for first in source.sections() {
        source.present(first, &mut bits)?;
        let mut from = 0;
        while let Some((start, len)) = bits.next_run(from, bits.len(), at_once) {
            let pages = match reader.pages(PageFrame(first.0 + start as u64), len) {
                Ok(pages) => pages,
                Err(error) if error.is_one_page() => {
                    from = start + 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            from = start + pages.len() / page_size;
            for page in pages
                .chunks_exact(SMALLEST_PAGE)
                .filter(|page| page.starts_with(FIRST_KEY))
            {
                candidates += 1;
                let accepted = Vmcoreinfo::parse(page, 0).ok().and_then(&mut accept);
                if let Some(accepted) = accepted {
                    return Ok(accepted);
                }
                if candidates == MAX_CANDIDATES {
                    return Err(KernelError::NoVmcoreinfo);
                }
            }
        }
    }
    Err(KernelError::NoVmcoreinfo)
}

/// Adds the name of the source to a parse error.
pub fn name_error(path: &std::path::Path, cause: FormatError) -> KernelError {
    KernelError::Source(SourceError::Format {
        path: path.to_owned(),
        cause,
    })
}
