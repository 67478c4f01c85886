//! One record of the log, and what there is to say of all of them.

use std::fmt;

use crate::error::KernelError;

/// One record. What a kernel of this form does not keep is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number since boot.
    pub seq: Option<u64>,
    /// Nanoseconds since boot; `None` in plain text without timestamps.
    pub ts_nsec: Option<u64>,
    /// Level, 0 (emerg) to 7 (debug).
    pub level: Option<u8>,
    /// Facility as syslog numbers them; 0 is the kernel.
    pub facility: Option<u8>,
    /// Who wrote it (CONFIG_PRINTK_CALLER; all zeros without).
    pub caller: Option<Caller>,
    /// The device it is about.
    pub device: Option<Device<'a>>,
    /// The text.
    pub text: RecordText<'a>,
}

/// The text of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordText<'a> {
    /// Bytes, without a line feed at the end; there may be some inside.
    Bytes(&'a [u8]),
    /// An empty line, for which the ring keeps no data.
    EmptyLine,
    /// The record is there, its text is not: it found no room in the ring.
    Absent,
}

impl<'a> RecordText<'a> {
    /// The bytes there are.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::EmptyLine | Self::Absent => &[],
        }
    }
}

/// The task or the CPU that wrote a record (printk_caller_id,
/// kernel/printk/printk.c): shown as T1 or C1.
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
    /// Such as `pci`.
    pub subsystem: &'a [u8],
    /// Such as `+pci:0000:00:01.0`.
    pub device: &'a [u8],
}

/// What was found on the way through a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// Records passed on.
    pub records: u64,
    /// Records that were being written when the kernel stopped; left out.
    pub unfinished: u64,
    /// Pieces that could not be read from the dump; left out.
    pub unreadable: u64,
    /// What is wrong with the first of them.
    pub first_unreadable: Option<String>,
    /// Why the log does not go on, or does not begin where it should.
    pub cut: Option<String>,
}

impl LogSummary {
    /// What a user must know; nothing if the log is whole.
    pub fn warnings(&self) -> Vec<String> {
        let unreadable = self.first_unreadable.as_ref().map(|first| {
            format!(
                "{} pieces of the kernel log could not be read and are left out; the first: {first}",
                self.unreadable
            )
        });
        let cut = self
            .cut
            .as_ref()
            .map(|why| format!("the kernel log is cut: {why}"));
        unreadable.into_iter().chain(cut).collect()
    }

    /// Counts a piece that could not be read, and says whether to go on: a
    /// dump with many such has no log to speak of, and each may cost a walk
    /// through the page tables.
    pub(super) fn lose(&mut self, error: &KernelError) -> bool {
        const ENOUGH: u64 = 4096;
        self.unreadable += 1;
        self.first_unreadable
            .get_or_insert_with(|| error.to_string());
        let go_on = self.unreadable < ENOUGH;
        if !go_on {
            self.cut(format!("{ENOUGH} pieces of it could not be read"));
        }
        go_on
    }

    /// Notes why the log is not whole; the first reason counts.
    pub(super) fn cut(&mut self, why: impl Into<String>) {
        self.cut.get_or_insert_with(|| why.into());
    }
}
