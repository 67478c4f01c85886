//! Copies a dump as it is: by helpers, in large pieces, holes as holes.

use std::io;

use bigiron_format::ReadAt;
use bigiron_helpers::{ChunkCursor, run};
use rustix::fs::ioctl_ficlone;

use super::{Job, Made, space};
use crate::error::DumpError;
use crate::output::{FileOutput, Output, keep};
use crate::page::is_zero;
use crate::progress::{Doing, Phase, Progress};

/// Bytes that a helper takes at once.
const PIECE: u64 = 1 << 20;
/// What may become a hole.
const BLOCK: usize = 4096;

/// Copies the origin into the temporary file.
pub fn write(job: &Job) -> Result<Made, DumpError> {
    let (origin, temporary) = (job.origin, job.temporary);
    let bytes = origin.bytes()?;
    let size = bytes.size();
    // On one file system that can, nothing is copied at all.
    if let Some(file) = origin.whole_file()
        && ioctl_ficlone(temporary.file()?, file.file()).is_ok()
    {
        temporary.sync()?;
        return Ok(Made {
            bytes: size,
            copied: 0,
            damage: None,
        });
    }
    space::check(job.directory, space::data_bytes(bytes.as_ref()))?;
    let output = FileOutput::in_new_file(temporary.file()?, temporary.path().to_owned());
    let error = DumpError::write(temporary.path());
    output.set_size(size).map_err(error)?;
    let whole = Stretch {
        from: bytes.as_ref(),
        start: 0,
        end: size,
        to: 0,
    };
    job.progress
        .begin(Phase::Copying, size.div_ceil(BLOCK as u64));
    let copied = keep(&output, job.progress, job.stop, error, || {
        copy(job, &[whole], &output)
    })?;
    temporary.sync()?;
    Ok(Made {
        bytes: size,
        copied,
        damage: None,
    })
}

/// Bytes of a source and where they go.
pub struct Stretch<'a> {
    pub from: &'a dyn ReadAt,
    pub start: u64,
    pub end: u64,
    pub to: u64,
}

/// Copies stretches, which must not overlap where they go; says how many bytes
/// were no holes.
pub fn copy(job: &Job, stretches: &[Stretch], output: &dyn Output) -> Result<u64, DumpError> {
    let (progress, stop) = (job.progress, job.stop);
    let mut runs = Vec::new();
    for stretch in stretches {
        let data = space::data(stretch.from, stretch.start..stretch.end);
        runs.extend(data.into_iter().map(|data| (stretch, data)));
    }
    let mut pieces = 0;
    let ends = runs.iter().map(|(_, data)| {
        pieces += (data.end - data.start).div_ceil(PIECE);
        pieces
    });
    let ends: Vec<u64> = ends.collect();
    let cursor = ChunkCursor::new(pieces);
    let helpers = job
        .options
        .memory
        .helpers(job.options.threads, 0, PIECE * 2);
    let copied = run(helpers, stop, |_| -> Result<u64, DumpError> {
        let mut buffer = vec![0; PIECE as usize];
        let mut copied = 0;
        while let Some(piece) = cursor.take(stop) {
            let index = ends.partition_point(|end| *end <= piece);
            let before = if index == 0 { 0 } else { ends[index - 1] };
            let (stretch, data) = &runs[index];
            let start = data.start + (piece - before) * PIECE;
            let end = (start + PIECE).min(data.end);
            let bytes = &mut buffer[..(end - start) as usize];
            stretch
                .from
                .read_exact_at("the dump", start, bytes)
                .map_err(|error| job.origin.read_error(error))?;
            copied += put(
                bytes,
                stretch.to + (start - stretch.start),
                output,
                progress,
            )
            .map_err(|source| write_error(output, source))?;
            progress.add((end - start).div_ceil(BLOCK as u64));
        }
        Ok(copied)
    })?;
    if stop.is_set() {
        return Err(DumpError::Interrupted { kept: None });
    }
    Ok(copied.iter().sum())
}

/// Writes what is not zero; gives how many bytes that is.
pub fn put(bytes: &[u8], to: u64, output: &dyn Output, progress: &Progress) -> io::Result<u64> {
    let _doing = progress.doing(Doing::Write);
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
        // Blocks of the copy, where a hole can be.
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

/// What to say of an error of [`put`].
pub fn write_error(output: &dyn Output, source: io::Error) -> DumpError {
    DumpError::Write {
        path: output.kept().unwrap_or_default(),
        source,
        kept: None,
    }
}
