//! Converts a dump to an uncompressed ELF core.

use bigiron_format::bitmap::Bitmap;
use bigiron_kernel::{
    DumpLevel, IoMethod, Kernel, MemorySource, PhysicalMemory, SECTION_FRAMES, named_note_warnings,
};

use super::job::{Made, SaveJob};
use super::{space, unpack};
use crate::dump::dump_into;
use crate::error::DumpError;
use crate::format::Format;
use crate::options::DumpOptions;
use crate::output::FileOutput;
use crate::subject::Subject;

/// Writes the core into the temporary file: all pages that the dump has, with holes for zeros.
/// Only this function distinguishes formats with their own way of unpacking from those that go
/// through the dump pipeline.
pub fn write(job: &SaveJob) -> Result<Made, DumpError> {
    let (options, temporary) = (job.options, job.temporary);
    let source = job.origin.open_source()?;
    if let Some(dump) = source.memory().vmdump() {
        return unpack::write(job, dump, source.damage());
    }
    space::check(job.directory, present_bytes(source.memory())?)?;
    let kernel = Kernel::find(
        &source,
        None,
        IoMethod::Auto,
        PhysicalMemory::DEFAULT_CACHE_PAGES,
    );
    let level = DumpLevel::default();
    let subject = Subject::new(&source, kernel, level)?;
    let mut warnings = named_note_warnings(&source, subject.kernel());
    warnings.extend(subject.warning().map(ToOwned::to_owned));
    let output = FileOutput::in_new_file(temporary.file()?, temporary.path().to_owned());
    let dump = DumpOptions {
        level,
        threads: options.threads,
        memory: options.memory,
        ..DumpOptions::default()
    };
    let summary = dump_into(&subject, output, Format::ELF, &dump, job.progress, job.stop)?;
    temporary.sync()?;
    let damage = (summary.lost > 0).then(|| format!("{} pages lost", summary.lost));
    Ok(Made {
        bytes: temporary.len()?,
        copied: summary.bytes_in,
        damage,
        unreadable: summary.unreadable,
        warnings,
    })
}

/// Number of bytes of the pages that a dump has.
fn present_bytes(memory: &dyn MemorySource) -> Result<u64, DumpError> {
    let mut bits = Bitmap::new(SECTION_FRAMES as usize);
    let mut pages = 0;
    for first in memory.sections() {
        memory.present(first, &mut bits)?;
        pages += bits.count();
    }
    Ok(pages << memory.page_shift())
}
