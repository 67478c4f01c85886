//! Error texts and progress reports for programs.

use std::ffi::c_char;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use bigiron_memory::segment::SegmentError;
use bigiron_memory::{Errno, Outcome};

use crate::options::ParsedOptions;
use crate::progress::report;

/// The program's buffer for an error text.
#[derive(Clone, Copy, Debug)]
pub struct ErrorText {
    room: *mut c_char,
    size: usize,
}

impl ErrorText {
    /// No buffer.
    pub const NONE: Self = Self {
        room: std::ptr::null_mut(),
        size: 0,
    };

    /// Wraps a buffer of `size` bytes, and sets it to an empty string.
    ///
    /// # Safety
    /// `room` must be NULL, or writable for `size` bytes while the result is used.
    pub unsafe fn to(room: *mut c_char, size: usize) -> Self {
        let told = match room.is_null() {
            true => Self::NONE,
            false => Self { room, size },
        };
        told.write("");
        told
    }

    /// Writes as much of the text as fits, cut at a character boundary.
    fn write(self, text: &str) {
        let Some(most) = self.size.checked_sub(1) else {
            return;
        };
        let ends = text
            .char_indices()
            .map(|(at, character)| at + character.len_utf8());
        let length = ends.take_while(|end| *end <= most).last().unwrap_or(0);
        // SAFETY: by the contract of `to` the buffer has `size` bytes; fewer are written.
        unsafe {
            let room = self.room.cast::<u8>();
            room.copy_from_nonoverlapping(text.as_ptr(), length);
            room.add(length).write(0);
        }
    }

    /// Writes `text` and returns EINVAL, for invalid options.
    pub fn wrong<T>(self, text: &str) -> Result<T, Errno> {
        self.write(text);
        Err(Errno::INVAL)
    }

    /// Writes the text of an error and returns its number.
    pub fn error(self, error: &SegmentError) -> Errno {
        self.write(&error.to_string());
        error.errno()
    }

    /// Converts a result, and writes the text of its error.
    pub fn result<T>(
        self,
        result: Result<T, SegmentError>,
        tracker: &ProgressTracker<'_>,
    ) -> Result<T, Errno> {
        result.map_err(|error| match error {
            SegmentError::Interrupted { .. } if tracker.stopped => {
                self.write(&error.to_string());
                Errno::CANCELED
            }
            error => self.error(&error),
        })
    }
}

/// An operation with optional progress reports to the program.
#[derive(Debug)]
pub struct ProgressTracker<'a> {
    how: &'a ParsedOptions,
    began: Instant,
    done: usize,
    stopped: bool,
    busy: Duration,
    /// Number of bytes to process.
    pub wanted: usize,
    /// Number of threads that worked.
    pub helpers: usize,
}

impl<'a> ProgressTracker<'a> {
    /// Starts an operation.
    pub fn new(how: &'a ParsedOptions, wanted: usize) -> Self {
        Self {
            how,
            began: Instant::now(),
            done: 0,
            stopped: false,
            busy: Duration::ZERO,
            wanted,
            helpers: 0,
        }
    }

    /// Reports that `done` bytes are processed.
    pub fn step(&mut self, done: usize) -> ControlFlow<()> {
        self.done = done;
        self.wanted = self.wanted.max(done);
        let answer = report(self.how, &self.so_far(None));
        if answer.is_some() && done < self.wanted {
            self.stopped = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Takes over the counts of a partial operation, which has reported its own progress.
    pub fn take(&mut self, outcome: &Outcome) {
        self.done = outcome.bytes;
        self.helpers = outcome.helpers;
        self.busy = outcome.busy;
    }

    fn so_far(&self, error: Option<Errno>) -> Outcome {
        Outcome {
            bytes: self.done,
            wanted: self.wanted,
            helpers: self.helpers,
            elapsed: self.began.elapsed(),
            busy: self.busy,
            error,
        }
    }

    /// Returns the outcome of the operation.
    pub fn outcome<T>(&self, result: &Result<T, Errno>) -> Outcome {
        let mut outcome = self.so_far(result.as_ref().err().copied());
        if result.is_ok() {
            outcome.bytes = outcome.wanted;
        }
        outcome
    }
}

/// Converts a file size to the address range of this machine.
pub fn bytes_in(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
