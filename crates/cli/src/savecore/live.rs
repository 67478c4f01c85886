//! `savecore -L`: dumps the running kernel directly into the directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bigiron_dump::{
    ChunkCompression, DumpOptions, Format, Progress, Subject, ZstdChunks, save_kernel,
};
use bigiron_helpers::Stop;
use bigiron_kernel::{
    IoMethod, Kernel, PhysicalMemory, RUNNING_KERNEL, Source, named_note_warnings,
};

use super::settings::{NAME, Settings, print_log_path};
use crate::commands::{live, save};
use crate::source;
use crate::tell::tell;
use crate::{progress, signals};

/// Makes the dump: an ELF core of the memory in the given file, or, without one, a vmdump of
/// the running kernel.
pub fn save(settings: &Settings, directory: &Path) -> anyhow::Result<()> {
    let path = settings.file.clone();
    let path = path.unwrap_or_else(|| PathBuf::from(RUNNING_KERNEL));
    if path == Path::new(RUNNING_KERNEL) {
        live::check_is_shown()?;
    }
    let format = match settings.file {
        Some(_) => Format::ELF,
        None => Format::Vmdump(ChunkCompression::Zstd(ZstdChunks::default())),
    };
    let options = DumpOptions::default();
    let opened = Source::open(std::slice::from_ref(&path))?;
    let found = Kernel::find(
        &opened,
        None,
        IoMethod::Auto,
        PhysicalMemory::DEFAULT_CACHE_PAGES,
    );
    let subject = Subject::new(&opened, found, options.level)
        .map_err(|error| source::name_error(error.into(), &path))?;
    for warning in named_note_warnings(&opened, subject.kernel()) {
        tell!("{NAME}: warning: {warning}");
    }
    let stop = Stop::new();
    signals::watch(&stop)?;
    let progress = Arc::new(Progress::new());
    let page_size = 1 << opened.memory().page_shift();
    let display = progress::begin(&progress, page_size, !settings.verbose);
    let made = save_kernel(
        &subject, &path, directory, format, &options, &progress, &stop,
    );
    drop(display);
    let (saved, summary) = made.map_err(|error| source::name_error(error.into(), &path))?;
    for warning in &summary.warnings {
        tell!("{NAME}: warning: {warning}");
    }
    save::print_warnings(&saved.warnings);
    let log = save::write_log(&saved, &stop)?;
    if settings.verbose {
        let name = saved.path.display();
        tell!("{NAME}: saved a dump of {} in {name}", path.display());
        print_log_path(log.as_deref());
    }
    Ok(())
}
