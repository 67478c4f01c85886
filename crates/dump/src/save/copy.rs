//! Copies a dump unchanged, in parallel, keeping holes.

use std::io;

use bigiron_format::ReadAt;
use bigiron_format::salvage::{Salvager, Unreadable};
use bigiron_helpers::{WorkCursor, run};
use rustix::fs::ioctl_ficlone;

use super::job::{Made, SaveJob};
use super::lost_pages::mark_lost_pages;
use super::space;
use crate::error::DumpError;
use crate::output::{FileOutput, Output, keep};
use crate::page::is_zero;
use crate::progress::{OutputCall, Phase, Progress};

/// Bytes copied by a helper in one step.
const STEP: u64 = 1 << 20;
/// Granularity of holes.
const BLOCK: usize = 4096;

/// Copies the origin into the temporary file.
pub fn write(job: &SaveJob) -> Result<Made, DumpError> {
    let (origin, temporary) = (job.origin, job.temporary);
    let bytes = origin.bytes()?;
    let size = bytes.size();
    // File systems that share blocks need no copy.
    if let Some(file) = origin.whole_file()
        && ioctl_ficlone(temporary.file()?, file.file()).is_ok()
    {
        temporary.sync()?;
        return Ok(Made {
            bytes: size,
            ..Made::default()
        });
    }
    space::check(job.directory, space::data_bytes(bytes.as_ref()))?;
    let output = FileOutput::in_new_file(temporary.file()?, temporary.path().to_owned());
    let error = DumpError::write(temporary.path());
    output.set_size(size).map_err(error)?;
    let whole = CopyRange {
        from: bytes.as_ref(),
        start: 0,
        end: size,
        to: 0,
    };
    job.progress
        .begin(Phase::Copying, size.div_ceil(BLOCK as u64));
    let copied = keep(
        || output.sync().map_err(error),
        job.progress,
        job.stop,
        || copy(job, &[whole], &output),
    )?;
    mark_lost_pages(&output, &copied.lost).map_err(error)?;
    temporary.sync()?;
    Ok(Made {
        bytes: size,
        copied: copied.bytes,
        damage: None,
        unreadable: copied.unreadable(),
        ..Made::default()
    })
}

/// The result of a copy.
#[derive(Default)]
pub struct Copied {
    /// Bytes that were not holes.
    pub bytes: u64,
    /// Ranges of the source that could not be read; the copy has zeros there.
    pub unreadable: Unreadable,
    /// The same ranges by their offsets in the copy.
    pub lost: Unreadable,
}

impl Copied {
    /// Describes the ranges that could not be read, if there are any.
    pub fn unreadable(&self) -> Option<String> {
        (!self.unreadable.is_empty()).then(|| self.unreadable.describe())
    }
}

/// A byte range of a source and its offset in the copy.
pub struct CopyRange<'a> {
    pub from: &'a dyn ReadAt,
    pub start: u64,
    pub end: u64,
    pub to: u64,
}

/// Copies ranges, whose targets must not overlap. Sectors that cannot be read stay holes.
pub fn copy(job: &SaveJob, ranges: &[CopyRange], output: &dyn Output) -> Result<Copied, DumpError> {
    let (progress, stop) = (job.progress, job.stop);
    let mut runs = Vec::new();
    for range in ranges {
        let data = space::data(range.from, range.start..range.end);
        runs.extend(data.into_iter().map(|data| (range, data)));
    }
    let mut steps = 0;
    let ends = runs.iter().map(|(_, data)| {
        steps += (data.end - data.start).div_ceil(STEP);
        steps
    });
    let ends: Vec<u64> = ends.collect();
    let cursor = WorkCursor::new(steps);
    let helpers = job.options.memory.helpers(job.options.threads, 0, STEP * 2);
    let done = run(helpers, stop, |_| -> Result<Copied, DumpError> {
        let mut buffer = vec![0; STEP as usize];
        let mut copied = Copied::default();
        let mut salvager = Salvager::default();
        while let Some(step) = cursor.take(stop) {
            let index = ends.partition_point(|end| *end <= step);
            let before = if index == 0 { 0 } else { ends[index - 1] };
            let (range, data) = &runs[index];
            let start = data.start + (step - before) * STEP;
            let end = (start + STEP).min(data.end);
            let bytes = &mut buffer[..(end - start) as usize];
            let whole = salvager
                .read(range.from, "the dump", start, bytes)
                .map_err(|error| job.origin.read_error(error))?;
            if !whole {
                let unreadable = salvager.take();
                copied.lost.merge(unreadable.moved(range.start, range.to));
                copied.unreadable.merge(unreadable);
            }
            copied.bytes += put(bytes, range.to + (start - range.start), output, progress)
                .map_err(|source| write_error(output, source))?;
            progress.add((end - start).div_ceil(BLOCK as u64));
        }
        Ok(copied)
    })?;
    if stop.is_set() {
        return Err(DumpError::Interrupted { kept: None });
    }
    let mut all = Copied::default();
    for one in done {
        all.bytes += one.bytes;
        all.unreadable.merge(one.unreadable);
        all.lost.merge(one.lost);
    }
    Ok(all)
}

/// Writes `bytes` without their zero blocks; returns the number of bytes written.
pub fn put(bytes: &[u8], to: u64, output: &dyn Output, progress: &Progress) -> io::Result<u64> {
    let _call = progress.enter(OutputCall::Write);
    let (mut start, mut at, mut written) = (0, 0, 0);
    let mut flush = |start: usize, at: usize| {
        if start == at {
            return Ok(());
        }
        written += (at - start) as u64;
        progress.add_written((at - start) as u64);
        output.write_at(to + start as u64, &bytes[start..at])
    };
    while at < bytes.len() {
        // Align to blocks of the copy, where holes can be.
        let first = BLOCK - (to + at as u64) as usize % BLOCK;
        let len = first.min(bytes.len() - at);
        if is_zero(&bytes[at..at + len]) {
            flush(start, at)?;
            start = at + len;
        }
        at += len;
    }
    flush(start, at)?;
    Ok(written)
}

/// The error for a failed [`put`].
pub fn write_error(output: &dyn Output, cause: io::Error) -> DumpError {
    DumpError::Write {
        path: output.kept().unwrap_or_default(),
        cause,
        kept: None,
    }
}
