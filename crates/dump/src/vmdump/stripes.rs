//! Striped vmdumps: chunks go in turn to several files or devices, each with a
//! writer of its own, so that all of them write at the same time.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bigiron_helpers::{BoundedQueue, run_beside};
use bigiron_kernel::Filter;

use super::piece_sink::{Buffers, PieceSink, write};
use super::place::Piece;
use super::write_to;
use crate::error::DumpError;
use crate::options::DumpOptions;
use crate::output::{Output, keep};
use crate::progress::Phase;
use crate::summary::Summary;
use crate::task::{Task, Written, with_output};

/// Chunks that wait for the writer of a part: as many as a quarter of the dump's
/// memory holds, within these bounds.
const QUEUED: RangeInclusive<u64> = 2..=8;

/// Chunks that wait for the writer of each of so many parts, at most.
pub fn queued(options: &DumpOptions, parts: usize) -> u64 {
    let chunks = options.memory.bytes() / 4 / u64::from(options.chunk_bytes.max(1));
    let each = chunks / (parts as u64).max(1);
    each.saturating_sub(1).clamp(*QUEUED.start(), *QUEUED.end())
}

/// Memory that so many parts take: the chunks that wait for their writers, and
/// those that are written.
pub fn parts_bytes(options: &DumpOptions, parts: usize) -> u64 {
    parts as u64 * (queued(options, parts) + 1) * u64::from(options.chunk_bytes)
}

/// One file or device of a striped dump.
pub struct Stripe {
    path: PathBuf,
    output: Box<dyn Output>,
    queue: BoundedQueue<Piece>,
    /// Who puts a piece writes it where the system gave no thread for it.
    has_writer: AtomicBool,
}

impl Stripe {
    /// A part called `path` in messages; at most `queued` chunks wait for its writer.
    pub fn new(path: &Path, output: Box<dyn Output>, queued: u64) -> Self {
        Self {
            path: path.to_owned(),
            output,
            queue: BoundedQueue::new(queued as usize, u64::MAX),
            has_writer: AtomicBool::new(false),
        }
    }

    /// Nothing of use was written: removes it.
    pub fn discard(&self) {
        self.output.discard();
    }
}

/// Filters, then writes all parts. What an interrupted dump or one that cannot be
/// written any more has in them is kept.
pub fn write_striped<'s>(
    task: &Task<'_, 's>,
    filter: &Filter<'_, 's>,
    parts: Vec<Stripe>,
    summary: &mut Summary,
) -> Result<(), DumpError> {
    let stripes = Stripes { task, parts };
    match write_to(task, filter, &stripes, summary) {
        Ok(Written) => Ok(()),
        Err(error) => Err(stripes.ending(error)),
    }
}

/// All parts.
struct Stripes<'a, 's> {
    task: &'a Task<'a, 's>,
    parts: Vec<Stripe>,
}

impl<'a, 's> Stripes<'a, 's> {
    /// The task as far as it is about one part.
    fn task_of(&self, part: &Stripe) -> Task<'a, 's> {
        self.task.for_part(&part.path, self.task.helpers)
    }

    /// Runs `work` beside the writers of `parts` and what keeps them on the disk.
    fn beside(
        &self,
        parts: &[Stripe],
        buffers: &Buffers,
        work: &mut dyn FnMut() -> Result<(), DumpError>,
    ) -> Result<(), DumpError> {
        let Some((part, others)) = parts.split_first() else {
            let result = work();
            // All at once, so that they bring the rest to the disk at the same time.
            self.parts.iter().for_each(|part| part.queue.close());
            return result;
        };
        let task = self.task_of(part);
        let error = |error| task.write_error(error);
        keep(
            part.output.as_ref(),
            task.progress,
            task.stop,
            error,
            || {
                let writer = || write_all(&task, part, buffers);
                let main = |has_writer| {
                    part.has_writer.store(has_writer, Ordering::Relaxed);
                    self.beside(others, buffers, work)
                };
                run_beside(task.stop, writer, main).map(|_| ())
            },
        )
    }

    /// Keeps or discards what a failed dump wrote, and says so in the error.
    fn ending(&self, error: DumpError) -> DumpError {
        let full = self.task.options.discard_if_full && error.is_output_full();
        // As long as the filter works there is no page in them yet.
        let empty = matches!(
            self.task.progress.phase(),
            Phase::Opening | Phase::Filtering
        );
        let usable = matches!(
            error,
            DumpError::Write { .. } | DumpError::Interrupted { .. }
        );
        if full || empty || !usable {
            self.parts.iter().for_each(Stripe::discard);
            return error;
        }
        for part in &self.parts {
            // A device is told how much of a stream is there. The error that led here
            // is the one to report.
            if part.output.is_stream() {
                let _ = part.output.sync();
            }
        }
        let kept = |path: Option<&Path>| {
            let mut parts = self.parts.iter();
            let part = parts.find(|part| path.is_none_or(|path| path == part.path));
            part.and_then(|part| part.output.kept())
        };
        match error {
            DumpError::Write { path, source, .. } => DumpError::Write {
                kept: kept(Some(&path)),
                path,
                source,
            },
            DumpError::Interrupted { .. } => DumpError::Interrupted { kept: kept(None) },
            other => other,
        }
    }
}

/// The writer of one part: writes pieces in the order in which they come.
fn write_all(task: &Task, part: &Stripe, buffers: &Buffers) -> Result<(), DumpError> {
    with_output(task, part.output.as_ref(), |output| {
        while let Some(piece) = part.queue.pop(task.stop) {
            write(task, output, &piece)?;
            buffers.give(piece.bytes);
        }
        match task.stop.is_set() {
            true => Ok(()),
            false => output.sync().map_err(|error| task.write_error(error)),
        }
    })
}

impl PieceSink for Stripes<'_, '_> {
    fn parts(&self) -> u16 {
        self.parts.len() as u16
    }

    /// So each part grows without holes, and may be a stream.
    fn is_in_order(&self) -> bool {
        true
    }

    fn put(&self, piece: Piece, buffers: &Buffers) -> Result<(), DumpError> {
        let part = &self.parts[piece.part];
        if part.has_writer.load(Ordering::Relaxed) {
            let weight = piece.bytes.len() as u64;
            let pushed = part.queue.push(piece, weight, self.task.stop);
            return pushed.map_err(|_| DumpError::Interrupted { kept: None });
        }
        write(&self.task_of(part), part.output.as_ref(), &piece)?;
        buffers.give(piece.bytes);
        Ok(())
    }

    fn take_from(
        &self,
        buffers: &Buffers,
        work: &mut dyn FnMut() -> Result<(), DumpError>,
    ) -> Result<(), DumpError> {
        self.beside(&self.parts, buffers, work)
    }

    /// No part gets its name before all of them are on the disk.
    fn end(&self, pieces: Vec<Piece>) -> Result<(), DumpError> {
        let error = |part, error| self.task_of(part).write_error(error);
        for part in &self.parts {
            part.output.sync().map_err(|source| error(part, source))?;
        }
        for piece in &pieces {
            let part = &self.parts[piece.part];
            let task = self.task_of(part);
            with_output(&task, part.output.as_ref(), |output| {
                write(&task, output, piece)?;
                output.sync().map_err(|source| error(part, source))
            })?;
        }
        for (number, part) in self.parts.iter().enumerate() {
            if let Err(source) = part.output.finish() {
                self.parts[..number].iter().for_each(|part| {
                    part.output.take_back();
                });
                return Err(error(part, source));
            }
        }
        Ok(())
    }
}
