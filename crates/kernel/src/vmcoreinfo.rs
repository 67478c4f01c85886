//! Finds VMCOREINFO: given by the user, in a note, or in memory.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::vmcoreinfo::{FIRST_KEY, Vmcoreinfo};
use bigiron_format::{FormatError, PageFrame};

use crate::error::{KernelError, SourceError};
use crate::source::{IoMethod, MemorySource, SECTION_FRAMES};

/// Pages searched in one read.
const PAGES_AT_ONCE: usize = 256;
/// Maximum number of old texts and copies that are tried.
const MAX_CANDIDATES: usize = 64;

/// Reads VMCOREINFO from the note.
pub fn from_note(source: &dyn MemorySource) -> Result<Option<Vmcoreinfo>, FormatError> {
    source
        .vmcoreinfo_note()
        .map(|note| Vmcoreinfo::parse(note.text, note.offset))
        .transpose()
}

/// Searches memory for VMCOREINFO: a page that starts with its first key. The kernel writes it
/// into a page of its own (vmcoreinfo_data, kernel/vmcore_info.c). Other pages may start alike,
/// so `accept` decides.
pub fn from_memory<T>(
    source: &dyn MemorySource,
    io: IoMethod,
    mut accept: impl FnMut(Vmcoreinfo) -> Option<T>,
) -> Result<T, KernelError> {
    let page_size = 1 << source.page_shift();
    let mut reader = source.reader(io);
    let mut bits = Bitmap::new(SECTION_FRAMES as usize);
    let mut candidates = 0;
    for first in source.sections() {
        source.present(first, &mut bits)?;
        let mut from = 0;
        while let Some((start, len)) = bits.next_run(from, bits.len(), PAGES_AT_ONCE) {
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
                .chunks_exact(page_size)
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
