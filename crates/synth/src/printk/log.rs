//! The log to write: its form and its records.

use crate::error::SynthError;

/// Format of the kernel's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogForm {
    /// The ring buffer from 5.10 on. A block of text that would end exactly at the end of the
    /// ring is placed at its start.
    Lockless,
    /// The same from 67e1b0052f6b on: such blocks stay at the end.
    LocklessToTheEnd,
    /// The `struct printk_log` from 3.11 to 5.9.
    Records,
    /// The same with its name up to 3.10, `struct log`.
    OldRecords,
    /// The characters of kernels before 3.5.
    Text,
}

/// State of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Complete and closed.
    Finalized,
    /// Complete, but more text may be appended.
    Committed,
    /// The writer was interrupted.
    Reserved,
    /// An empty line, without a block of text.
    EmptyLine,
    /// Without a block of text, because the ring had no room.
    NoRoom,
}

/// A call of printk().
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// Time since boot in nanoseconds.
    pub ts_nsec: u64,
    /// Level, 0 to 7.
    pub level: u8,
    /// Facility; 0 is the kernel.
    pub facility: u8,
    /// A PID, or a CPU with bit 31 set.
    pub caller: u32,
    /// The text.
    pub text: Vec<u8>,
    /// Subsystem and device.
    pub device: Option<(String, String)>,
    /// State; other than [`Written::Finalized`] only in lockless rings.
    pub written: Written,
}

impl LogRecord {
    /// Returns a message of the kernel.
    pub fn new(ts_nsec: u64, text: &[u8]) -> Self {
        Self {
            ts_nsec,
            level: 6,
            facility: 0,
            caller: 1,
            text: text.to_vec(),
            device: None,
            written: Written::Finalized,
        }
    }
}

/// A log to write to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelLog {
    /// Format of the log.
    pub form: LogForm,
    /// log2 of the size of the text in bytes.
    pub text_bits: u32,
    /// log2 of the number of descriptors.
    pub descriptor_bits: u32,
    /// All records since boot, including overwritten ones.
    pub records: Vec<LogRecord>,
    /// Number of records at the last `dmesg --clear`.
    pub cleared: usize,
}

/// A log in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogImage {
    /// The lines of VMCOREINFO that describe it.
    pub info: String,
    /// The bytes at its address.
    pub bytes: Vec<u8>,
    /// Indices of the records that are still present, oldest first.
    pub kept: Vec<usize>,
}

impl KernelLog {
    /// Returns an empty log with room for 4 KiB of text.
    pub fn new(form: LogForm) -> Self {
        Self {
            form,
            text_bits: 12,
            descriptor_bits: 7,
            records: Vec::new(),
            cleared: 0,
        }
    }

    /// Sets `count` records that cover all kinds.
    pub fn with_records(mut self, count: usize) -> Self {
        for number in self.records.len()..self.records.len() + count {
            let ts_nsec = number as u64 * 98_765_432_101;
            let mut text = format!("record {number}: {}", "=".repeat(number * 7 % 61)).into_bytes();
            match number % 11 {
                3 => text.extend_from_slice(b"\nwith a second line\n and\ta third"),
                5 => text.extend_from_slice(b"\x1b[31m\x7f \xc3\xa4\x00\xff\r"),
                7 => text.clear(),
                _ => {}
            }
            let mut record = LogRecord::new(ts_nsec, &text);
            record.level = (number % 8) as u8;
            record.facility = if number % 5 == 4 { 3 } else { 0 };
            record.caller = (number as u32 % 700) | ((number as u32 % 2) << 31);
            record.device = (number % 6 == 2)
                .then(|| ("pci".to_owned(), format!("+pci:0000:00:{number:02x}.0")));
            record.written = match number % 17 {
                8 => Written::Committed,
                10 => Written::Reserved,
                12 => Written::EmptyLine,
                14 => Written::NoRoom,
                _ => Written::Finalized,
            };
            if !self.is_lockless() {
                record.written = Written::Finalized;
            }
            self.records.push(record);
        }
        self
    }

    pub(crate) fn is_lockless(&self) -> bool {
        matches!(self.form, LogForm::Lockless | LogForm::LocklessToTheEnd)
    }

    /// Parses `log FORM [n=COUNT] [text_bits=N] [descriptor_bits=N] [cleared=COUNT]`.
    pub(crate) fn from_words(line: usize, words: &[&str]) -> Result<Self, SynthError> {
        let fail = |message: &str| SynthError::line(line, message.to_owned());
        let forms = "log: expected lockless, lockless-to-the-end, records, old-records or text";
        let (form, settings) = words.split_first().ok_or_else(|| fail(forms))?;
        let mut log = Self::new(match *form {
            "lockless" => LogForm::Lockless,
            "lockless-to-the-end" => LogForm::LocklessToTheEnd,
            "records" => LogForm::Records,
            "old-records" => LogForm::OldRecords,
            "text" => LogForm::Text,
            _ => return Err(fail(forms)),
        });
        let mut count = 40;
        for setting in settings {
            let parsed = setting
                .split_once('=')
                .and_then(|(key, value)| Some((key, value.parse::<usize>().ok()?)));
            match parsed {
                Some(("n", value)) if value <= 1 << 16 => count = value,
                Some(("cleared", value)) => log.cleared = value,
                Some(("text_bits", value @ 9..=20)) => log.text_bits = value as u32,
                Some(("descriptor_bits", value @ 1..=15)) => log.descriptor_bits = value as u32,
                _ => return Err(fail(&format!("`{setting}` is not a setting of a log"))),
            }
        }
        Ok(log.with_records(count))
    }
}
