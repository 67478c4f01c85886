//! Saves the running kernel: the dump is made directly in the directory.

use std::path::Path;

use bigiron_format::device::DumpId;
use bigiron_helpers::Stop;

use super::directory::Directory;
use super::record::Record;
use super::saved::Saved;
use super::space;
use super::temporary::Temporary;
use crate::dump::dump_into;
use crate::dump_id::new_dump_id;
use crate::error::DumpError;
use crate::format::Format;
use crate::options::DumpOptions;
use crate::output::FileOutput;
use crate::progress::Progress;
use crate::subject::Subject;
use crate::summary::Summary;

/// The id in the temporary name. It is constant, so that a run takes over the file of a killed
/// run, and waits for an active one. A file of another user at that name is left alone.
const NO_DUMP: DumpId = DumpId([0; 16]);

/// Dumps `subject`, whose memory is at `source`, into `directory` under the next number: as
/// `vmcore.N` if it is an ELF core, else as `vmdump.N`. A failed dump leaves nothing behind.
///
/// # Errors
///
/// Those of a dump, and a dump that would leave less free space than the file `minfree`
/// demands.
pub fn save_kernel(
    subject: &Subject,
    source: &Path,
    directory: &Path,
    format: Format,
    options: &DumpOptions,
    progress: &Progress,
    stop: &Stop,
) -> Result<(Saved, Summary), DumpError> {
    let directory = Directory::open(directory)?;
    let stem = if matches!(format, Format::Elf { .. }) {
        "vmcore"
    } else {
        "vmdump"
    };
    let id = new_dump_id();
    let mut options = options.clone();
    options.size_limit = space::limit(&directory)?;
    let temporary = directory.lock_temporary(stem, NO_DUMP, stop)?;
    let made = || {
        let output = FileOutput::in_new_file(temporary.file()?, temporary.path().to_owned());
        let summary = dump_into(subject, output, format, &options, progress, stop)?;
        let bytes = temporary.len()?;
        let damage = match summary.lost {
            0 => subject.damage().map(ToOwned::to_owned),
            lost => Some(format!("{lost} pages lost")),
        };
        let names = subject.utsname();
        let record = Record {
            id,
            number: 0,
            stem: stem.into(),
            bytes,
            damage: damage.clone(),
            unreadable: None,
            about: vec![
                ("source", source.display().to_string()),
                ("host", names.names[1].clone()),
                ("kernel", names.release().to_owned()),
            ],
        };
        let number = directory.name(&temporary, record, None)?;
        let saved = Saved {
            id,
            number,
            path: directory.path(stem, number),
            before: false,
            bytes,
            copied: summary.bytes_out,
            damage,
            unreadable: None,
            encrypted: false,
            warnings: directory.warnings(),
        };
        Ok((saved, summary))
    };
    made().map_err(|error| discarded(&temporary, error))
}

/// Removes a failed copy; the returned error no longer names it as kept.
pub fn discarded(temporary: &Temporary, error: DumpError) -> DumpError {
    temporary.discard();
    match error {
        DumpError::Write { path, cause, .. } => DumpError::Write {
            path,
            cause,
            kept: None,
        },
        DumpError::Interrupted { .. } => DumpError::Interrupted { kept: None },
        other => other,
    }
}
