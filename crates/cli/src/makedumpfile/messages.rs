//! Messages and their streams.

use crate::tell::{tell, write_error, write_output};

/// Progress, on standard error.
const PROGRESS: u8 = 1;
/// Common messages.
const COMMON: u8 = 2;
/// Errors, on standard error.
const ERROR: u8 = 4;
/// Debug messages.
const DEBUG: u8 = 8;
/// Statistics and times.
const REPORT: u8 = 16;

/// The kinds of messages that `--message-level` selects.
#[derive(Clone, Copy, Debug)]
pub struct Messages {
    level: u8,
    /// True if standard output is reserved for the dump.
    all_to_stderr: bool,
}

impl Messages {
    /// Progress, common messages and errors.
    pub const DEFAULT_LEVEL: u8 = PROGRESS | COMMON | ERROR;
    /// All kinds.
    pub const MAX_LEVEL: u8 = 31;

    /// Creates the default selection.
    pub fn new() -> Self {
        Self {
            level: Self::DEFAULT_LEVEL,
            all_to_stderr: false,
        }
    }

    pub fn set_level(&mut self, level: u8) {
        self.level = level;
    }

    pub fn add_debug(&mut self) {
        self.level |= DEBUG;
    }

    pub fn add_report(&mut self) {
        self.level |= REPORT;
    }

    /// Reserves standard output for the dump.
    pub fn leave_stdout(&mut self) {
        self.all_to_stderr = true;
    }

    pub fn shows_progress(&self) -> bool {
        self.level & PROGRESS != 0
    }

    pub fn common(&self, text: &str) {
        self.print(COMMON, text);
    }

    pub fn debug(&self, text: &str) {
        self.print(DEBUG, text);
    }

    pub fn report(&self, text: &str) {
        self.print(REPORT, text);
    }

    /// Prints a common message that is not makedumpfile's own, on standard error: standard
    /// output has only makedumpfile's messages.
    pub fn notice(&self, text: &str) {
        if self.level & COMMON != 0 {
            tell!("makedumpfile: {text}");
        }
    }

    pub fn error(&self, text: &str) {
        if self.level & ERROR != 0 {
            tell!("makedumpfile: {text}");
        }
    }

    fn print(&self, kind: u8, text: &str) {
        if self.level & kind == 0 {
            return;
        }
        // There is nowhere to report an error.
        let _ = match self.all_to_stderr {
            true => write_error(text),
            false => write_output(text),
        };
    }
}
