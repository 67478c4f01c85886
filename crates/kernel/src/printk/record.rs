//! A record of the log, and statistics over all of them.

use std::{fmt, io};

use crate::error::KernelError;

/// Errors of reading a log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log is not in the dump, or is invalid.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The output cannot be written.
    #[error("cannot write the kernel log: {0}")]
    Write(io::Error),
}

impl From<io::Error> for LogError {
    fn from(cause: io::Error) -> Self {
        Self::Write(cause)
    }
}

/// Callback for each record, oldest first.
pub type Visit<'v> = dyn FnMut(&Record<'_>) -> io::Result<()> + 'v;

/// A record. Fields that this kernel's format does not have are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Sequence number since boot.
    pub seq: Option<u64>,
    /// Nanoseconds since boot; `None` in plain text without timestamps.
    pub ts_nsec: Option<u64>,
    /// Level, 0 (emerg) to 7 (debug).
    pub level: Option<u8>,
    /// Facility, as numbered by syslog; 0 is the kernel.
    pub facility: Option<u8>,
    /// The writer (CONFIG_PRINTK_CALLER; all zeros without).
    pub caller: Option<Caller>,
    /// The device that the record is about.
    pub device: Option<Device<'a>>,
    /// The text.
    pub text: RecordText<'a>,
}

/// The text of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordText<'a> {
    /// Bytes without the final line feed; there may be others inside.
    Bytes(&'a [u8]),
    /// An empty line, for which the ring stores no data.
    EmptyLine,
    /// The record exists but its text does not: it did not fit into the ring.
    Absent,
}

impl<'a> RecordText<'a> {
    /// Returns the available bytes.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::EmptyLine | Self::Absent => &[],
        }
    }
}

/// The task or CPU that wrote a record (printk_caller_id, kernel/printk/printk.c), printed as
/// T1 or C1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller(pub u32);

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CPU: u32 = 0x8000_0000;
        let kind = if self.0 & CPU == 0 { 'T' } else { 'C' };
        f.pad(&format!("{kind}{}", self.0 & !CPU))
    }
}

/// The device that a record is about (struct dev_printk_info).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device<'a> {
    /// Subsystem, such as `pci`.
    pub subsystem: &'a [u8],
    /// Device, such as `+pci:0000:00:01.0`.
    pub device: &'a [u8],
}

/// Statistics of a walk through a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// Records passed on.
    pub records: u64,
    /// Omitted records that were being written when the kernel stopped.
    pub unfinished: u64,
    /// Omitted records and text that could not be read.
    pub unreadable: u64,
    /// Error of the first of them.
    pub first_unreadable: Option<String>,
    /// Reason why the log ends early or starts late.
    pub cut: Option<String>,
}

impl LogSummary {
    /// Warnings for the user; empty if the log is complete.
    pub fn warnings(&self) -> Vec<String> {
        let unreadable = self.first_unreadable.as_ref().map(|first| {
            format!(
                "{} items of the kernel log could not be read and are omitted; the first: {first}",
                self.unreadable
            )
        });
        let cut = self
            .cut
            .as_ref()
            .map(|why| format!("the kernel log is incomplete: {why}"));
        unreadable.into_iter().chain(cut).collect()
    }

    /// Counts an unreadable item and returns whether to continue: a dump with many such items
    /// has no usable log, and each may cost a page table walk.
    pub(super) fn lose(&mut self, error: &KernelError) -> bool {
        const ENOUGH: u64 = 4096;
        self.unreadable += 1;
        self.first_unreadable
            .get_or_insert_with(|| error.to_string());
        let go_on = self.unreadable < ENOUGH;
        if !go_on {
            self.cut(format!("{ENOUGH} items of it could not be read"));
        }
        go_on
    }

    /// Records why the log is incomplete; only the first reason is kept.
    pub(super) fn cut(&mut self, why: impl Into<String>) {
        self.cut.get_or_insert_with(|| why.into());
    }
}
