//! What programs are told while segments are made, and after.

use std::ffi::c_char;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use bigiron_memory::segment::SegmentError;
use bigiron_memory::{Errno, Outcome};

use crate::options::ParsedOptions;
use crate::progress::report;

/// A program's room for the text of an error.
#[derive(Clone, Copy, Debug)]
pub struct ErrorText {
    room: *mut c_char,
    size: usize,
}

impl ErrorText {
    /// No room.
    pub const NONE: Self = Self {
        room: std::ptr::null_mut(),
        size: 0,
    };

    /// Room for `size` bytes, where an empty text is now.
    ///
    /// # Safety
    /// `room` is NULL, or so many bytes may be written there for as long as the result is used.
    pub unsafe fn to(room: *mut c_char, size: usize) -> Self {
        let told = match room.is_null() {
            true => Self::NONE,
            false => Self { room, size },
        };
        told.write("");
        told
    }

    /// As much of the text as there is room for, cut at a character.
    fn write(self, text: &str) {
        let Some(most) = self.size.checked_sub(1) else {
            return;
        };
        let ends = text
            .char_indices()
            .map(|(at, character)| at + character.len_utf8());
        let length = ends.take_while(|end| *end <= most).last().unwrap_or(0);
        // SAFETY: `to` was told that there is room for `size` bytes; these are fewer.
        unsafe {
            let room = self.room.cast::<u8>();
            room.copy_from_nonoverlapping(text.as_ptr(), length);
            room.add(length).write(0);
        }
    }

    /// What the options lack.
    pub fn wrong<T>(self, text: &str) -> Result<T, Errno> {
        self.write(text);
        Err(Errno::INVAL)
    }

    /// The number of an error, whose text is told.
    pub fn error(self, error: &SegmentError) -> Errno {
        self.write(&error.to_string());
        error.errno()
    }

    /// A result, whose error is told.
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

/// An operation whose progress the program may be told.
#[derive(Debug)]
pub struct ProgressTracker<'a> {
    how: &'a ParsedOptions,
    began: Instant,
    done: usize,
    stopped: bool,
    busy: Duration,
    /// Bytes that are to be done.
    pub wanted: usize,
    /// Number of threads that worked.
    pub helpers: usize,
}

impl<'a> ProgressTracker<'a> {
    /// Begins now.
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

    /// So many bytes are done.
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

    /// What was done, and told, by parts.
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

    /// What became of it.
    pub fn outcome<T>(&self, result: &Result<T, Errno>) -> Outcome {
        let mut outcome = self.so_far(result.as_ref().err().copied());
        if result.is_ok() {
            outcome.bytes = outcome.wanted;
        }
        outcome
    }
}

/// Bytes of a file, as this machine can address.
pub fn bytes_in(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
