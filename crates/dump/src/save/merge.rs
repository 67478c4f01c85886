//! Joins the parts of a striped dump.

use super::job::{Made, SaveJob};
use super::space;
use crate::device::refused;
use crate::error::DumpError;
use crate::output::{FileOutput, Output, keep};
use crate::progress::Phase;
use crate::vmdump::{MergeOptions, merge};

/// Joins the parts to one vmdump in the temporary file.
pub fn write(job: &SaveJob) -> Result<Made, DumpError> {
    let (origin, temporary) = (job.origin, job.temporary);
    let source = origin.open_source()?;
    let (Some(stripes), Some(dump)) = (origin.stripes(), source.memory().vmdump()) else {
        return Err(refused(origin.path(), "is not a part of a striped vmdump"));
    };
    space::check(job.directory, stripes.data_bytes()?)?;
    let output = FileOutput::in_new_file(temporary.file()?, temporary.path().to_owned());
    let error = DumpError::write(temporary.path());
    let header = dump.header();
    job.progress
        .begin(Phase::Copying, header.core_size >> header.page_shift);
    let options = MergeOptions {
        threads: job.options.threads,
        memory: job.options.memory,
        progress: job.progress,
        stop: job.stop,
    };
    let merged = keep(
        || output.sync().map_err(error),
        job.progress,
        job.stop,
        || merge(dump, &output, &options, &error),
    )?;
    temporary.sync()?;
    let unreadable = merged.unreadable;
    let damage = match (merged.lost, merged.reason) {
        (0, reason) => reason,
        (lost, None) => Some(format!("{lost} pages lost")),
        (lost, Some(reason)) => Some(format!("{lost} pages lost; {reason}")),
    };
    Ok(Made {
        bytes: merged.bytes,
        copied: merged.bytes,
        damage,
        unreadable,
        ..Made::default()
    })
}
