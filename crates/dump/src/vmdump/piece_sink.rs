//! Where the pieces of a vmdump go: into one output, or each into its part's.

use std::sync::Mutex;

use super::place::Piece;
use crate::error::DumpError;
use crate::output::Output;
use crate::task::Task;

/// Buffers to be filled again.
#[derive(Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// A buffer that was used, or a new one.
    pub(super) fn take(&self) -> Vec<u8> {
        self.lock().pop().unwrap_or_default()
    }

    /// Keeps a buffer.
    pub(super) fn give(&self, buffer: Vec<u8>) {
        self.lock().push(buffer);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// Takes the pieces of a dump.
pub(super) trait PieceSink: Sync {
    /// Files that the dump is written to.
    fn parts(&self) -> u16;

    /// Whether pieces have to come in the order in which they were placed.
    fn is_in_order(&self) -> bool;

    /// Takes a piece; its buffer comes back into `buffers`.
    fn put(&self, piece: Piece, buffers: &Buffers) -> Result<(), DumpError>;

    /// Runs `work`, which puts all pieces but the last of each file. After it all
    /// of them are with their outputs.
    fn take_from(
        &self,
        buffers: &Buffers,
        work: &mut dyn FnMut() -> Result<(), DumpError>,
    ) -> Result<(), DumpError>;

    /// Takes the last piece of each file, which makes it a whole one.
    fn end(&self, pieces: Vec<Piece>) -> Result<(), DumpError>;
}

/// One output.
pub(super) struct OneOutput<'a, 's> {
    pub(super) task: &'a Task<'a, 's>,
    pub(super) output: &'a dyn Output,
}

impl PieceSink for OneOutput<'_, '_> {
    fn parts(&self) -> u16 {
        1
    }

    fn is_in_order(&self) -> bool {
        self.output.is_stream()
    }

    fn put(&self, piece: Piece, buffers: &Buffers) -> Result<(), DumpError> {
        write(self.task, self.output, &piece)?;
        buffers.give(piece.bytes);
        Ok(())
    }

    fn take_from(
        &self,
        _buffers: &Buffers,
        work: &mut dyn FnMut() -> Result<(), DumpError>,
    ) -> Result<(), DumpError> {
        work()
    }

    fn end(&self, pieces: Vec<Piece>) -> Result<(), DumpError> {
        let error = |error| self.task.write_error(error);
        // The root must not be on a disk that then refuses a page.
        self.output.sync().map_err(error)?;
        for piece in &pieces {
            write(self.task, self.output, piece)?;
        }
        self.output.finish().map_err(error)
    }
}

/// Writes a piece, and counts it.
pub(super) fn write(task: &Task, output: &dyn Output, piece: &Piece) -> Result<(), DumpError> {
    output
        .write_at(piece.offset, &piece.bytes)
        .map_err(|error| task.write_error(error))?;
    task.progress.add_written(piece.bytes.len() as u64);
    Ok(())
}
