//! Storage of the bitmap of kept pages between filtering and copying.

use std::sync::OnceLock;

use bigiron_format::bitmap::Bitmap;

use crate::error::DumpError;
use crate::job::DumpJob;
use crate::output::Part;

/// Bytes of one section's bitmap.
pub const SECTION_BYTES: usize = bigiron_kernel::SECTION_FRAMES as usize / 8;
/// Memory of one section: its bitmap, its table entry, and the allocator's overhead.
const SECTION_MEMORY: u64 = SECTION_BYTES as u64 + 64;

/// Storage of the bitmaps of kept pages. They grow with the machine: 32 MiB for each TiB.
pub enum BitmapStore<'a> {
    /// In a part, which holds the bitmap anyway: from this offset on.
    InOutput(&'a Part<'a>, u64),
    /// In memory, by section number, for the first sections. The filter runs again for the
    /// others.
    InMemory(Vec<OnceLock<Box<[u8]>>>),
}

impl<'a> BitmapStore<'a> {
    /// Creates the store of a dump of `sections` sections: in one of `parts`, if it can be read
    /// back and the format has the bitmap at `offset`; else in memory, in at most `usual` bytes
    /// and a quarter of the dump's memory budget. A running kernel's bitmaps take the memory they
    /// need, because the filter would not decide the same a second time.
    pub fn new(
        job: &DumpJob,
        parts: &'a [Part<'a>],
        offset: Option<u64>,
        sections: usize,
        usual: u64,
    ) -> Self {
        let readable = parts.iter().find(|part| part.is_readable());
        if let (Some(part), Some(offset)) = (readable, offset) {
            return Self::InOutput(part, offset);
        }
        let max_bytes = match job.subject.source().is_live() {
            true => u64::MAX,
            false => usual.min(job.options.memory.bytes() / 4),
        };
        let fit = usize::try_from(max_bytes / SECTION_MEMORY).unwrap_or(usize::MAX);
        Self::InMemory((0..sections.min(fit)).map(|_| OnceLock::new()).collect())
    }

    /// Stores the bitmap of section `index`, if there is room for it.
    pub fn store(&self, index: usize, bits: &Bitmap) {
        if let Self::InMemory(sections) = self
            && let Some(section) = sections.get(index)
        {
            let _ = section.set(bits.as_bytes()[..SECTION_BYTES].into());
        }
    }

    /// Loads the bitmap of section `index`, which begins with page frame `first`. Returns false
    /// if it was not stored.
    pub fn load(&self, index: usize, first: u64, bits: &mut Bitmap) -> Result<bool, DumpError> {
        match self {
            Self::InOutput(part, offset) => {
                let bytes = &mut bits.as_bytes_mut()[..SECTION_BYTES];
                part.read_back(offset + first / 8, bytes)?;
            }
            Self::InMemory(sections) => {
                let Some(bytes) = sections.get(index).and_then(|bits| bits.get()) else {
                    return Ok(false);
                };
                bits.clear();
                bits.as_bytes_mut()[..SECTION_BYTES].copy_from_slice(bytes);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::path::PathBuf;

    use bigiron_helpers::{MemoryBudget, Stop};
    use bigiron_kernel::{IoMethod, Kernel, RUNNING_KERNEL, Source};
    use bigiron_synth::{ElfShape, Synth};

    use super::*;
    use crate::options::DumpOptions;
    use crate::progress::Progress;
    use crate::subject::Subject;

    #[test]
    fn stored_bitmaps_stay_within_the_memory_limit_except_for_a_running_kernel() {
        let machine = Synth::from_text("kernel 6.12\nram 0x0-0x9f 0x100-0xfff").unwrap();
        let core = machine.elf(&ElfShape::vmcore());
        let stored = |name: &str, memory, usual| {
            let source = Source::from_bytes(Box::new(core.clone()), PathBuf::from(name)).unwrap();
            let kernel = Kernel::find(&source, None, IoMethod::Read, 16).unwrap();
            let subject = Subject::from(kernel);
            let options = DumpOptions {
                memory: MemoryBudget::of(memory),
                ..DumpOptions::default()
            };
            let job = DumpJob {
                subject: &subject,
                filter: subject.filter(options.level, options.owners).unwrap(),
                options: &options,
                progress: &Progress::new(),
                stop: &Stop::new(),
                helpers: 1,
                has_spare: false,
                drops_zero_pages: false,
            };
            match BitmapStore::new(&job, &[], Some(0), 100, usual) {
                BitmapStore::InMemory(sections) => sections.len() as u64,
                BitmapStore::InOutput(..) => unreachable!("there is no output"),
            }
        };
        let ten = 10 * SECTION_MEMORY;
        assert_eq!(stored("vmcore", 4 * ten, u64::MAX), 10);
        assert_eq!(stored("vmcore", u64::MAX, ten), 10);
        assert_eq!(stored("vmcore", 1024, ten), 0);
        assert_eq!(stored("vmcore", u64::MAX, u64::MAX), 100);
        assert_eq!(stored(RUNNING_KERNEL, 1024, 0), 100);
    }
}
